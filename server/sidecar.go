package server

import (
	"bytes"
	"strings"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/server/statistics"
	"github.com/throttledhq/throttled/topology"
)

// Sidecar is the connection of a sidecar to its upstream server. The address of the upstream is the leader in its views,
// and empty if the upstream does not answer. This node never leads.
type Sidecar interface {
	topology.Cluster
	// Upstream returns the status of the upstream.
	Upstream() topology.Upstream
	// Silent reports whether the upstream does not answer at present, so that waiting for it is useless.
	Silent() bool
	// Suspect reports that the upstream has not replied in time. Silent returns true until the upstream answers again.
	Suspect()
	// Refused is called once for each connection of Dial that the upstream has refused in its reply to the greeting. The error
	// wraps a *topology.ConnRefusedError.
	Refused(err error)
	// User returns the name of the user as which commands run on the upstream, or an empty string if it is not known.
	User() string
	// Decides reports whether Config.Engine decides some limiter commands. The commands that it does not decide, with
	// limiter.ErrNotLeading, are forwarded. If Decides returns false, all are forwarded.
	Decides() bool
	// RulesKnown reports whether the active rules are the newest ones of the upstream, as far as the sidecar can know. If it returns
	// false, commands that use the rules are forwarded.
	RulesKnown() bool
}

// isSidecar reports whether the server is a sidecar.
func (s *Server) isSidecar() bool { return s.sidecar != nil }

// clustered reports whether the server is a node of a cluster.
func (s *Server) clustered() bool { return s.cluster != nil && s.sidecar == nil }

// refusedBySidecar contains the commands that concern the state or the cluster of the upstream, and that a sidecar does
// not forward. With the list of the leases, a client could return units that the sidecar holds: on the upstream, all leases
// of the sidecar belong to one user.
var refusedBySidecar = map[string]bool{
	"bgsave": true, "flushall": true, "flushdb": true, "lastsave": true, "save": true,
	"cl.backup|index": true, "cl.backup|next": true, "cl.backup|start": true,
	"cl.cluster|add": true, "cl.cluster|hash": true, "cl.cluster|nodes": true, "cl.cluster|remove": true,
	"cl.cluster|set": true, "cl.cluster|status": true, "cl.cluster|transfer": true,
	"cl.lease.list":  true,
	"cl.rules|patch": true, "cl.rules|rollback": true, "cl.rules|set": true,
}

// refusal returns the error for a command that this server refuses because it is a sidecar, or nil.
func (s *Server) refusal(cmd *command) error {
	if s.sidecar == nil || !refusedBySidecar[cmd.name] {
		return nil
	}
	return errSidecar(cmd.name, s.upstreamAddress())
}

// errSidecar is the error for a command that must be sent to the upstream.
func errSidecar(name, upstream string) replyError {
	name = strings.ToUpper(strings.ReplaceAll(name, "|", " "))
	return replyError("ERR a sidecar holds no state; send " + name + " to " + upstream)
}

// upstreamAddress returns the address of the upstream in use, or the first one if none answers.
func (s *Server) upstreamAddress() string {
	u := s.sidecar.Upstream()
	if u.Address != "" || len(u.Addresses) == 0 {
		return u.Address
	}
	return u.Addresses[0]
}

// Errors of a sidecar in place of those of a cluster.
const (
	errUpstreamAway      replyError = "LOADING the upstream server does not answer: nothing was charged, try again"
	errUpstreamUncertain replyError = "UNCERTAIN the upstream server has not replied in time: it may have run the command"
)

// upstreamError returns the reply of a sidecar for an error of forwarding, or reply for any other error.
func (s *Server) upstreamError(err error, reply replyError) replyError {
	switch {
	case s.sidecar == nil:
	case isNotLeading(err):
		return errUpstreamAway
	case reply == errUncertain:
		return errUpstreamUncertain
	}
	return reply
}

// withUpstreamUser names the user of a sidecar in a reply of the upstream, see topology.NameUpstreamUser.
func (s *Server) withUpstreamUser(reply []byte) []byte {
	if s.sidecar == nil || !bytes.HasPrefix(reply, []byte("-NOPERM ")) {
		return reply
	}
	return []byte("-" + topology.NameUpstreamUser(string(reply[1:]), s.sidecar.User()))
}

// upstreamStatistics returns the statistics of the upstream.
func (s *Server) upstreamStatistics() statistics.Upstream {
	if s.sidecar == nil {
		return statistics.Upstream{}
	}
	u := s.sidecar.Upstream()
	return statistics.Upstream{
		Used: true, Answers: u.Address != "", Silence: lastAnswer(u), Connects: u.Connects, Failures: u.Failures,
		Open: s.away.open.Load(), Closed: s.away.closed.Load(), Local: s.away.local.Load(), LocalRefused: s.away.localRefused.Load(), Lessee: u.Lessee,
	}
}

// lastAnswer returns the time since the last answer of the upstream, or since the start of the sidecar.
func lastAnswer(u topology.Upstream) time.Duration {
	if u.Answered.IsZero() {
		return time.Since(u.Since)
	}
	return time.Since(u.Answered)
}

// infoSidecar writes the state of the upstream.
func infoSidecar(s *Server, w *infoWriter) {
	u := s.sidecar.Upstream()
	w.field("upstream", strings.Join(u.Addresses, ","))
	w.field("upstream_learned", strings.Join(u.Learned, ","))
	w.field("upstream_address", u.Address)
	w.field("upstream_link_status", linkWord(s.cluster.View(), "up", "down"))
	w.field("upstream_link_since", u.Since.Unix())
	w.field("upstream_last_answer_usec", lastAnswer(u).Microseconds())
	w.field("upstream_connects", u.Connects)
	w.field("upstream_connect_failures", u.Failures)
	w.field("upstream_error", echo([]byte(u.Error), maxEcho))
	w.field("upstream_away_open", s.away.open.Load())
	w.field("upstream_away_closed", s.away.closed.Load())
	w.field("upstream_away_local", s.away.local.Load())
	w.field("upstream_away_local_refused", s.away.localRefused.Load())
	infoLessee(w, &u.Lessee)
}

// infoLessee writes the leases that a sidecar has drawn.
func infoLessee(w *infoWriter, l *topology.Lessee) {
	w.field("lessee_mode", l.Mode)
	w.field("lessee_name", l.Name)
	w.field("lessee_error", echo([]byte(l.Error), maxEcho))
	w.field("lessee_bound_ms", limiter.Ceil(l.Bound, time.Millisecond))
	w.field("lessee_keys", l.Keys)
	w.field("lessee_leases", l.Leases)
	w.field("lessee_units", l.Units)
	w.field("lessee_admitted", l.Admitted)
	w.field("lessee_refused", l.Refused)
	w.field("lessee_forwarded", l.Forwarded)
	w.field("lessee_draws", l.Draws)
	w.field("lessee_returns", l.Returns)
	w.field("lessee_failed_draws", l.Failures)
	w.field("lessee_drawn_units", l.Drawn)
	w.field("lessee_returned_units", l.Returned)
	w.field("lessee_lost_units", l.Lost)
}
