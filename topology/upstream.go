package topology

import (
	"strings"
	"time"
)

// Upstream is the status of the upstream server of a sidecar.
type Upstream struct {
	Addresses []string  // host:port, as configured; must not be changed
	Learned   []string  // further addresses, named by the leader; must not be changed
	Address   string    // the address in use; empty if none answers
	Since     time.Time // time from which the address is in use, or from which none answers
	Answered  time.Time // time of the last answer to a probe; zero if there was none
	Connects  uint64    // number of times that an address was selected
	Failures  uint64    // number of failed attempts to connect
	Error     string    // reason why no address answers; empty while one is in use
	Lessee    Lessee
}

// Lessee holds the leases that a sidecar has drawn, and counters since it was started.
type Lessee struct {
	Mode  string // "off", "strict" or "relaxed"
	Name  string // of the sidecar, as in CL.LEASE.LIST
	Error string // error reply to the last draw; empty if it was accepted
	// Bound is 0 unless leases are relaxed. Otherwise each limit may admit in addition the units that it restores within this time.
	Bound     time.Duration
	Keys      int   // keys that are tracked because they are in demand
	Leases    int   // leases in hand
	Units     int64 // units in hand
	Admitted  int64 // requests admitted with leased units
	Refused   int64 // requests refused because the upstream is known to refuse them
	Forwarded int64 // limits of requests that were sent to the upstream
	Draws     int64 // draws sent
	Returns   int64 // returns sent
	Failures  int64 // draws without an answer
	Drawn     int64 // units granted
	Returned  int64 // units returned
	Lost      int64 // units of leases that ended before the units were spent or returned
}

// NameUpstreamUser returns the text of an error reply of an upstream. If the reply refuses a command for lack of a permission, the
// text names the user of the sidecar, or only "the upstream user" if the name is empty: "this user" could be that of a client of
// the sidecar.
func NameUpstreamUser(text, user string) string {
	rest, found := strings.CutPrefix(text, "NOPERM this user ")
	if !found {
		return text
	}
	return "NOPERM the " + strings.TrimSpace("upstream user "+user) + " " + rest
}
