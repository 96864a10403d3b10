package server

import (
	"crypto/rand"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/resp"
	"github.com/throttledhq/throttled/rules"
	"github.com/throttledhq/throttled/ruleset/counts"
)

// leaseCommands returns the rows of the commands about leases.
func leaseCommands() []command {
	const since = "0.4.0"
	return []command{
		{name: "cl.lease", arity: -7, flags: write | denyOOM | noMulti, keys: leaseKey.withAccess("RW access update"), group: groupLimiter, since: since,
			parse: parseLease, reply: replyLease, leases: true,
			summary: "Draws units of a limit as a lease, which the caller may spend without further commands until the lease ends",
			args:    "units:integer milliseconds:integer {" + leaseSpecs() + "} [LESSEE name] [RELAXED]"},
		{name: "cl.lease.list", arity: -1, flags: readonly | admin, group: groupLimiter, since: since, long: true, run: cmdLeaseList,
			cost:    "O(N) in the number of keys",
			summary: "Lists the outstanding leases, of all keys or of one", args: "[key]"},
		{name: "cl.lease.return", arity: -3, flags: write | fast | noMulti, group: groupLimiter, since: since,
			parse: parseLeaseReturn, reply: replyLeaseReturn, leases: true,
			summary: "Returns unused units of a lease", args: "id unused:integer [OF units:integer]"},
	}
}

// leaseSpecs returns the limits of CL.LEASE in the notation of syntax.go.
func leaseSpecs() string {
	specs := limitSpecs()
	return strings.Join(append(specs, "RAW key kind max:integer interval:integer amount:integer"), " | ")
}

// leaseKey is the key of the limit of CL.LEASE, which has the same position in all forms of the limit.
var leaseKey = keySpec{first: 4, last: 4, step: 1}

// parseLease is the parseFunc of CL.LEASE units milliseconds SPEC [LESSEE name] [RELAXED]. A SPEC is a limit as in CL.ALL, or
// RAW key kind max interval amount.
func parseLease(p *parsing, args [][]byte) error {
	user, args := p.leaseUser(args, 7)
	units, ok := resp.ParseInt(args[1])
	if !ok || units < 1 {
		return errInvalid("units", args[1], "an integer of at least 1")
	}
	hold, err := parseHold(args[2])
	if err != nil {
		return err
	}
	req := p.add(units)
	rest, err := parseLeaseLimit(req, args[3], args[4:], p.logEntries)
	if err != nil {
		return err
	}
	p.unit, p.draws = time.Millisecond, true
	req.Draw = &limiter.Draw{ID: newLeaseID(), User: user, Lessee: user[:min(len(user), limiter.MaxLessee)], Hold: hold}
	if req.Draw.Lessee == "" {
		req.Draw.Lessee = anonymousLessee
	}
	return parseDrawOptions(req.Draw, rest)
}

// parseHold parses the validity of a lease that a client requests. The server shortens a longer one than limiter.MaxHold, as it
// may shorten any: the reply has the validity that is granted. It cannot lengthen a shorter one than limiter.MinHold, because the
// client may count on the end that it has requested.
func parseHold(arg []byte) (time.Duration, error) {
	ms, ok := resp.ParseInt(arg)
	if !ok || ms < limiter.MinHold.Milliseconds() {
		return 0, errInvalid("milliseconds", arg, leaseTimes)
	}
	return time.Duration(min(ms, limiter.MaxHold.Milliseconds())) * time.Millisecond, nil
}

// leaseUser returns the user that owns the leases of a command, and the arguments without those that userForLeader has
// appended. All arguments before them are those of a client. The argument least is the number of arguments that the command
// needs.
func (p *parsing) leaseUser(args [][]byte, least int) (user string, rest [][]byte) {
	if n := len(args) - 2; p.fromNode && n >= least && spells(args[n], "user") {
		return string(args[n+1]), args[:n]
	}
	return p.user, args
}

// anonymousLessee is the lessee of a draw that names none, by a user without a name.
const anonymousLessee = "default"

// parseLeaseLimit sets the kind, key and limit of a draw, and returns the arguments after them.
func parseLeaseLimit(req *limiter.Request, word []byte, args [][]byte, logEntries int64) (rest [][]byte, err error) {
	if spells(word, rawWord) {
		return parseRaw(req, args, logEntries)
	}
	f := limitFormOf(word)
	switch {
	case f == nil:
		return nil, errLeaseWord(word)
	case len(args) < f.size:
		return nil, errLeaseShort(f)
	}
	return f.parseLimit(req, args[:f.size], args[f.size:], logEntries)
}

// parseDrawOptions parses the arguments after the limit of a draw.
func parseDrawOptions(d *limiter.Draw, args [][]byte) error {
	named := false
	for ; len(args) > 0; args = args[1:] {
		switch {
		case spells(args[0], "relaxed") && !d.Relaxed:
			d.Relaxed = true
		case !spells(args[0], "lessee") || named:
			return errDrawOption(args[0])
		case len(args) == 1:
			return errLesseeShort
		case len(args[1]) < 1 || len(args[1]) > limiter.MaxLessee:
			return errLessee
		default:
			d.Lessee, named = string(args[1]), true
			args = args[1:]
		}
	}
	return nil
}

// newLeaseID returns a number that clients cannot guess.
func newLeaseID() uint64 {
	var b [8]byte
	for {
		_, _ = rand.Read(b[:]) // never fails
		if id := binary.LittleEndian.Uint64(b[:]); id != 0 {
			return id
		}
	}
}

// replyLease appends the reply to CL.LEASE: the granted units, their validity in milliseconds, rounded down, the five integers
// of a decision on one more unit, and the id of the lease.
func replyLease(out *resp.Reply, b *batch, call *call) {
	req, d := &b.reqs[call.from], &b.out[call.from]
	out.Array(8)
	out.Int(req.Draw.Granted)
	out.Int(int64(req.Draw.Valid / time.Millisecond))
	replyFive(out, call.unit, d)
	if req.Draw.Granted == 0 {
		out.Bulk(nil)
		return
	}
	out.Bulk(limiter.AppendLeaseID(nil, req.Draw.ID, req.Key))
}

// parseLeaseReturn is the parseFunc of CL.LEASE.RETURN id unused [OF units].
func parseLeaseReturn(p *parsing, args [][]byte) error {
	user, args := p.leaseUser(args, 3)
	id, key, ok := limiter.ParseLeaseID(args[1])
	if !ok {
		return errInvalid("id", args[1], "an id from the reply to CL.LEASE")
	}
	unused, ok := resp.ParseInt(args[2])
	if !ok || unused < 1 {
		return errInvalid("unused", args[2], "an integer of at least 1")
	}
	req := p.add(unused)
	req.Kind, req.Key = limiter.Throttle, key
	req.Draw = &limiter.Draw{ID: id, User: user, Lessee: anonymousLessee, Return: true}
	p.unit, p.draws = time.Millisecond, true
	return parseReturnOption(req.Draw, args[3:])
}

// parseReturnOption parses the arguments after the quantity of a return.
func parseReturnOption(d *limiter.Draw, args [][]byte) error {
	switch {
	case len(args) == 0:
		return nil
	case len(args) != 2 || !spells(args[0], "of"):
		return errReturnOption(args[0])
	}
	of, ok := resp.ParseInt(args[1])
	if !ok || of < 1 {
		return errInvalid("units", args[1], "an integer of at least 1")
	}
	d.Of = of
	return nil
}

// replyLeaseReturn appends the number of units that were credited.
func replyLeaseReturn(out *resp.Reply, b *batch, call *call) { out.Int(b.reqs[call.from].Draw.Granted) }

// countLeases counts the units that the draws and returns of the batch have granted and credited.
func (b *batch) countLeases() {
	if b.rule.state.store == nil {
		return
	}
	table := b.rule.state.store.Counts()
	for i := range b.reqs {
		d := b.reqs[i].Draw
		switch {
		case d == nil || b.out[i].Err != nil || d.Granted == 0:
		case d.Return:
			table.Returned(ruleOf(b.reqs[i].Key), d.Granted, d.Valid)
		default:
			table.Granted(ruleOf(b.reqs[i].Key), d.Granted, d.Valid)
		}
	}
}

// ruleOf returns the name of the limit of the rules to which a key belongs, or the zero Name.
func ruleOf(key []byte) counts.Name {
	domain, limit, ok := rules.LimitOf(key)
	if !ok {
		return counts.Name{}
	}
	return counts.Name{Domain: string(domain), Limit: string(limit)}
}

// userForLeader returns the arguments of a command about leases that is forwarded to the leader, with the user of the client.
func (c *client) userForLeader(args [][]byte) [][]byte {
	return slices.Concat(args, [][]byte{[]byte("USER"), []byte(c.userName())})
}

// userName returns the name of the user of the client, which owns the leases that the client draws. It is "" on a connection of
// another node.
func (c *client) userName() string {
	if c.session.user == nil {
		return ""
	}
	return c.session.user.Name()
}

// cmdLeaseList replies with a map of fields for each outstanding lease.
func cmdLeaseList(c *client, args [][]byte) error {
	if len(args) > 2 {
		return errArity("cl.lease.list")
	}
	var leases []limiter.Lease
	c.srv.engine.Leases(func(l limiter.Lease) bool {
		if len(args) == 1 || string(l.Key) == string(args[1]) {
			l.Key = slices.Clone(l.Key)
			leases = append(leases, l)
		}
		return true
	})
	c.out.Array(len(leases))
	for i := range leases {
		replyListedLease(&c.out, &leases[i])
	}
	return nil
}

func replyListedLease(out *resp.Reply, l *limiter.Lease) {
	out.Map(6)
	for _, field := range [...]struct {
		name  string
		value []byte
	}{
		{"id", limiter.AppendLeaseID(nil, l.ID, l.Key)},
		{"kind", []byte(l.Kind.String() + " " + l.Kind.Encoding())},
		{"user", []byte(l.User)},
		{"lessee", []byte(l.Lessee)},
	} {
		out.Text(field.name)
		out.Bulk(field.value)
	}
	out.Text("units")
	out.Int(l.Units)
	out.Text("ends_in_ms")
	out.Int(limiter.Ceil(l.Left, time.Millisecond))
}

// infoLeases writes the outstanding leases and the counters of leases.
func infoLeases(s *Server, w *infoWriter) {
	u := s.engine.LeaseUsage()
	w.field("leases", u.Leases)
	w.field("leases_units", u.Units)
	w.field("leases_granted_units", u.Granted)
	w.field("leases_returned_units", u.Returned)
	w.field("leases_stranded_units", u.Stranded)
	w.field("leases_relaxed", u.Relaxed)
	w.field("leases_relaxed_bound_ms", limiter.Ceil(u.Bound, time.Millisecond))
}
