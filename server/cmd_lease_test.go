package server

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/ruleset/counts"
	"github.com/throttledhq/throttled/topology"
)

var lease = []string{"CL.LEASE", "10", "1000", "THROTTLE", "k", "999", "1000", "60", "LESSEE", "one"}

// draw draws the lease above, and returns its id.
func (p *peer) draw() string {
	p.t.Helper()
	v := p.ask(lease...)
	if len(v.list) != 8 || v.list[0].text != "10" || !strings.HasSuffix(v.list[7].text, ":k") {
		p.t.Fatalf("got %s, want a lease of 10 units of the key k", v)
	}
	return v.list[7].text
}

// TestLeasesBelongToUsers checks that a user can return only leases that the same user has drawn.
func TestLeasesBelongToUsers(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	admin := s.greet()
	for _, name := range []string{"a", "b"} {
		admin.do("+OK\r\n", "ACL", "SETUSER", name, "on", ">pw", "~*", "+@limits")
	}
	a, b := s.greet(), s.greet()
	a.do("+OK\r\n", "AUTH", "a", "pw")
	b.do("+OK\r\n", "AUTH", "b", "pw")
	id := a.draw()
	b.do(":0\r\n", "CL.LEASE.RETURN", id, "10")
	admin.do(":0\r\n", "CL.LEASE.RETURN", id, "10")
	a.fails(noCommandNamed("cl.lease.list"), "CL.LEASE.LIST")
	if got := admin.ask("CL.LEASE.LIST", "k").brief(); !strings.Contains(got, "user a lessee one units 10") {
		t.Errorf("the lease is listed as %s, want user a, lessee one, 10 units", got)
	}
	a.do(":4\r\n", "CL.LEASE.RETURN", id, "4")
	admin.await("leases", "leases_units", 6)
	a.do(":6\r\n", "CL.LEASE.RETURN", id, "10")
	for name, want := range map[string]int64{"leases": 0, "leases_units": 0, "leases_granted_units": 10, "leases_returned_units": 10} {
		if got := admin.count("leases", name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
}

// TestLeases_NoDecisions checks that draws and returns are not in the statistics of decisions, whether they grant units or not.
func TestLeases_NoDecisions(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	p := s.greet()
	p.ask("CL.LEASE.RETURN", p.draw(), "10")
	p.ask("CL.THROTTLE", "full", "0", "1", "3600")
	p.ask("CL.LEASE", "1", "1000", "THROTTLE", "full", "0", "1", "3600") // refused
	if n := p.count("stats", "limited_decisions"); n != 0 {
		t.Errorf("limited_decisions is %d, want 0", n)
	}
	for name, calls := range map[string]int64{"cl.lease": 2, "cl.lease.return": 1} {
		if c := statisticsOf(s.Statistics(), name); c.Limiter || c.Admitted+c.Limited != 0 || c.Calls != calls {
			t.Errorf("%s: got %+v, want %d calls and no decisions", name, c, calls)
		}
	}
}

// TestRelaxedLeaseIsShown checks that INFO shows the number and the bound of relaxed leases.
func TestRelaxedLeaseIsShown(t *testing.T) {
	t.Parallel()
	p := start(t, nil).greet()
	for i, want := range []struct{ relaxed, bound int64 }{{0, 0}, {1, 500}} {
		if got := p.count("leases", "leases_relaxed"); got != want.relaxed {
			t.Errorf("%d relaxed leases, want %d", got, want.relaxed)
		}
		if got := p.count("leases", "leases_relaxed_bound_ms"); got != want.bound {
			t.Errorf("the bound is %d ms, want %d", got, want.bound)
		}
		if i == 0 {
			p.ask("CL.LEASE", "10", "1000", "THROTTLE", "strict", "99", "10", "1")
			p.ask("CL.LEASE", "10", "500", "THROTTLE", "k", "99", "10", "1", "RELAXED")
		}
	}
}

// TestLeasePermissions checks that the key patterns of a user apply to the key of a lease, also in a raw limit.
func TestLeasePermissions(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	s.greet().do("+OK\r\n", "ACL", "SETUSER", "app", "on", ">pw", "~app:*", "+cl.lease")
	p := s.greet()
	p.do("+OK\r\n", "AUTH", "app", "pw")
	p.fails("NOPERM", lease...)
	p.fails("NOPERM", "CL.LEASE", "1", "100", "RAW", "k", "throttle", "100", "100000000", "0")
	if v := p.ask("CL.LEASE", "1", "100", "RAW", "app:k", "throttle", "100", "100000000", "0"); len(v.list) != 8 || v.list[0].text != "1" {
		t.Errorf("got %s, want a lease of one unit", v)
	}
}

// TestForwardedLeases checks that leases which are drawn on different nodes belong to the user that has drawn them.
func TestForwardedLeases(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b", "c")
	l.lead("a")
	id := l.nodes["b"].dial().draw()
	if got := l.nodes["a"].dial().ask("CL.LEASE.LIST").brief(); !strings.Contains(got, "user default lessee one units 10") {
		t.Errorf("the lease is listed as %s, want user default, lessee one, 10 units", got)
	}
	l.nodes["c"].dial().do(":4\r\n", "CL.LEASE.RETURN", id, "4")
	l.lead("b")
	l.nodes["a"].dial().do(":6\r\n", "CL.LEASE.RETURN", id, "9")
}

// TestLeasesWaitForCommit checks that in async mode a lease is granted only when its charge is committed.
func TestLeasesWaitForCommit(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b", "c")
	l.lead("a")
	l.setStatus(topology.Status{Mode: "async"})
	p := l.nodes["a"].dial()
	release := l.holdFlush()
	before := l.flushed()
	p.send(request(lease...))
	if !eventually(func() bool { return l.flushed() > before }) {
		t.Fatal("Flush is not called")
	}
	_ = p.SetReadDeadline(time.Now().Add(10 * time.Millisecond)) // long enough for a reply that is not held back
	if early, err := p.in.Peek(1); !isTimeout(err) {
		t.Errorf("before the commit the client got %q, want nothing", early)
	}
	_ = p.SetReadDeadline(time.Now().Add(patience))
	release()
	if v := p.read(); len(v.list) != 8 || v.list[0].text != "10" {
		t.Errorf("got %s, want a lease of 10 units", v)
	}
}

// TestLeaseUncertain makes a leader in async mode lose leadership after it has drawn or returned units, and before they are
// committed. The units may be committed, so the command must not run again, and the reply must not confirm it.
func TestLeaseUncertain(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	l.setStatus(topology.Status{Mode: "async"})
	p := l.nodes["a"].dial()
	for _, err := range []error{limiter.ErrNotLeading, nil} {
		id := p.draw()
		granted, returned := p.count("leases", "leases_granted_units"), p.count("leases", "leases_returned_units")
		l.loseAtFlush(true, err)
		p.do(failure(errUncertain), "CL.LEASE.RETURN", id, "4")
		l.loseAtFlush(true, err)
		p.do(failure(errUncertain), lease...)
		l.loseAtFlush(false, nil)
		p.ask("CL.LEASE.RETURN", id, "6") // may have ended
		if n := p.count("leases", "leases_granted_units") - granted; n != 10 {
			t.Errorf("Flush returns %v: %d units are granted, want 10", err, n)
		}
		if n := p.count("leases", "leases_returned_units") - returned; n != 4 && n != 10 {
			t.Errorf("Flush returns %v: %d units are returned, want 4 or 10", err, n)
		}
	}
}

// TestLease_CountedByLimit checks that leases are counted by the limit of the rules that the key belongs to.
func TestLease_CountedByLimit(t *testing.T) {
	t.Parallel()
	store := newRules(t, awayRules)
	p := setup{rules: store}.start(t).dial()
	const hour = "3600000000000"
	lease := p.ask("CL.LEASE", "2", "1000", "RAW", "rule|d|plain|fixed|1h|ip=1", "fixed", "40000", hour, "1")
	p.ask("CL.LEASE", "3", "1000", "RAW", "rule|d|removed|fixed|1h|-", "fixed", "40000", hour, "1")
	p.ask("CL.LEASE", "4", "1000", "THROTTLE", "user:1", "40000", "1000", "1")
	returned := p.ask("CL.LEASE.RETURN", lease.list[7].text, "1").int() // 0 if the lease has ended
	total := map[counts.Name]int64{}
	for _, row := range store.Counts().LeaseRows() {
		total[row.Name] += row.Outstanding + row.Stranded // a lease may end before this line
	}
	want := map[counts.Name]int64{{Domain: "d", Limit: "plain"}: 2 - returned, counts.Other: 3, {}: 4}
	if !maps.Equal(total, want) {
		t.Errorf("got %v, want %v", total, want)
	}
}

// TestLease_CountedAfterFollowUps checks that a lease is counted which is drawn in one batch with a check that can cause a ban.
func TestLease_CountedAfterFollowUps(t *testing.T) {
	t.Parallel()
	store := newRules(t, "version: 1\ndomain: d\nlimits:\n  a: {allow: 1 per 1h, algorithm: fixed, ban: {after: 9 per 1h, for: 1h}}\n")
	p := setup{rules: store}.start(t).dial()
	p.send(request("CL.CHECK", "d") + request("CL.LEASE", "4", "1000", "THROTTLE", "user:1", "40000", "1000", "1"))
	p.read()
	if v := p.read(); len(v.list) != 8 || v.list[0].text != "4" {
		t.Fatalf("got %s, want a lease of 4 units", v)
	}
	rows := store.Counts().LeaseRows()
	if len(rows) != 1 || rows[0].Outstanding+rows[0].Stranded != 4 {
		t.Errorf("got %+v, want 4 units", rows)
	}
}
