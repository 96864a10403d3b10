package sidecar

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestUpstream_FollowsLeader changes the leader of an upstream of which the sidecar has only one address. The sidecar must
// use the leader if it is reachable, and otherwise the node that it has the address of.
func TestUpstream_FollowsLeader(t *testing.T) {
	a, b, c := newNode(t), newNode(t), newNode(t)
	a.follow(b.addr())
	u := run(t, Config{Addresses: []string{a.addr()}})
	u.await(t, b.addr())
	b.follow(c.addr())
	u.Suspect() // sends the next probe immediately
	u.await(t, c.addr())
	a.follow(c.addr())
	c.kill()
	last := u.await(t, a.addr())
	u.Suspect()
	eventually(t, "a probe is answered after the attempt to connect to the leader", func() bool { return !u.Silent() })
	if v := u.View(); v != last {
		t.Errorf("the upstream in use is %q, want that which answers", v.Leader)
	}
	a.follow(b.addr())
	b.follow("")
	u.Suspect()
	u.await(t, b.addr())
}

// TestUpstream_FollowsNoFollower checks that a sidecar does not use a node that another node has named as the leader, but
// that does not lead.
func TestUpstream_FollowsNoFollower(t *testing.T) {
	a, b := newNode(t), newNode(t)
	a.follow(b.addr())
	b.follow(a.addr())
	u := run(t, Config{Addresses: []string{a.addr()}})
	first := u.await(t, a.addr())
	u.Suspect()
	eventually(t, "a probe is answered after a connection to the other node", func() bool { return !u.Silent() })
	if v := u.View(); v != first {
		t.Errorf("the upstream in use is %q, want the first one", v.Leader)
	}
}

// TestFollower_Backoff checks that a node that was named as the leader, and names another one, is not asked again before
// followBackoff.
func TestFollower_Backoff(t *testing.T) {
	a, b := newNode(t), newNode(t)
	a.follow(b.addr())
	b.follow(a.addr())
	u := New(Config{Addresses: []string{a.addr()}, Timeout: time.Second})
	p, err := openProber(t.Context(), &u.config.Credentials, a.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	var f follower
	for range 3 {
		if q := f.open(t.Context(), u, p); q != nil {
			t.Errorf("the sidecar uses %s, want the first node", q.addr)
			q.close()
		}
	}
	if n := b.countRoles(); n != 1 {
		t.Errorf("the sidecar has sent ROLE to the other node %d times, want once", n)
	}
	b.follow("")
	f.until = time.Now()
	q := f.open(t.Context(), u, p)
	if q == nil {
		t.Fatal("the sidecar does not use the leader after the backoff")
	}
	q.close()
}

// TestUpstream_RoleRefused checks that a sidecar that may not run ROLE, or whose upstream does not have it, uses the node,
// and asks only once.
func TestUpstream_RoleRefused(t *testing.T) {
	for _, reply := range []string{
		"-NOPERM User default has no permissions to run the 'role' command",
		"-ERR unknown command 'ROLE', with args beginning with: ",
	} {
		n := newNode(t)
		n.refuseRole(reply)
		u := run(t, Config{Addresses: []string{n.addr()}})
		u.await(t, n.addr())
		for range 3 {
			answered := u.Upstream().Answered
			u.Suspect()
			eventually(t, "a probe is answered", func() bool { return u.Upstream().Answered.After(answered) })
		}
		if roles := n.countRoles(); roles != 1 {
			t.Errorf("%s: the sidecar has sent ROLE %d times, want once", reply, roles)
		}
	}
}

// TestUpstream_RoleFailed checks that a sidecar asks for the role again after a temporary error.
func TestUpstream_RoleFailed(t *testing.T) {
	a, b := newNode(t), newNode(t)
	a.follow(b.addr())
	a.refuseRole("-LOADING the node loads its data")
	u := run(t, Config{Addresses: []string{a.addr()}})
	u.await(t, a.addr())
	a.refuseRole("")
	u.Suspect()
	u.await(t, b.addr())
}

// TestUpstream_LearnsNodes kills the only node of which the sidecar has an address. It must use the node that this one has named
// while it was the leader.
func TestUpstream_LearnsNodes(t *testing.T) {
	a, b := newNode(t), newNode(t)
	a.lead(b.addr())
	b.follow(a.addr())
	u := run(t, Config{Addresses: []string{a.addr()}})
	u.await(t, a.addr())
	eventually(t, "the address is learned", func() bool { return slices.Equal(u.Upstream().Learned, []string{b.addr()}) })
	b.lead()
	a.kill()
	u.await(t, b.addr())
}

// TestUpstream_ForgetsNodes checks that a sidecar uses the address of the current leader and of the nodes that it names,
// and no address that only an earlier answer has named.
func TestUpstream_ForgetsNodes(t *testing.T) {
	a, b, c := newNode(t), newNode(t), newNode(t)
	a.follow(b.addr())
	b.lead(a.addr(), "127.0.0.1:1")
	u := run(t, Config{Addresses: []string{a.addr()}})
	u.await(t, b.addr())
	learned := func(want ...string) {
		t.Helper()
		eventually(t, "the addresses are learned", func() bool { return slices.Equal(u.Upstream().Learned, want) })
	}
	learned(b.addr(), "127.0.0.1:1")
	b.lead(a.addr(), c.addr())
	u.Suspect()
	learned(b.addr(), c.addr())
	b.lead() // no follower answers it
	u.Suspect()
	eventually(t, "a probe is answered", func() bool { return !u.Silent() })
	learned(b.addr(), c.addr())
}

// TestUpstream_Sentinel uses the address of a Sentinel.
func TestUpstream_Sentinel(t *testing.T) {
	s, a, b := newNode(t), newNode(t), newNode(t)
	s.watch(a.addr())
	u := run(t, Config{Addresses: []string{s.addr()}})
	u.await(t, a.addr())
	s.watch(b.addr())
	a.kill()
	u.await(t, b.addr())
	s.watch("")
	b.kill()
	eventually(t, "the error", func() bool { return strings.Contains(u.Upstream().Error, "reports no leader of limits") })
}

func TestParseRole(t *testing.T) {
	for _, tt := range []struct {
		reply any
		want  role
	}{
		{[]any{"slave", "10.0.0.2", int64(6380), "connected", int64(7)}, role{leader: "10.0.0.2:6380"}},
		{[]any{"slave", "fd00::2", int64(6380), "connected", int64(7)}, role{leader: "[fd00::2]:6380"}},
		{[]any{"slave", "", int64(0), "connect", int64(7)}, role{}},
		{[]any{"slave", "10.0.0.2", int64(0), "connect", int64(7)}, role{}}, // the leader does not serve clients on such a port
		{[]any{"slave", "10.0.0.2"}, role{}},
		{[]any{"master", int64(7), []any{}}, role{}},
		{[]any{"master", int64(7), []any{[]any{"10.0.0.3", "6380", "7"}, []any{"fd00::3", "6381", "7"}, []any{"x", "0", "7"}, "y"}},
			role{replicas: []string{"10.0.0.3:6380", "[fd00::3]:6381"}}},
		{[]any{"sentinel", []any{"mymaster"}}, role{sentinel: "mymaster"}},
		{[]any{"sentinel", []any{}}, role{}},
		{replyError("NOPERM"), role{}},
		{int64(0), role{}},
		{nil, role{}},
	} {
		if got := parseRole(tt.reply); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("the role in %v is %+v, want %+v", tt.reply, got, tt.want)
		}
	}
}

// TestNodes checks that each answer of a leader replaces the learned addresses, and that configured addresses remain.
func TestNodes(t *testing.T) {
	n := nodes{configured: []string{"a:1"}}
	for _, step := range []struct {
		named   []string
		changed bool
		all     []string
	}{
		{[]string{"a:1", "b:1", "b:1"}, true, []string{"a:1", "b:1"}},
		{[]string{"b:1", "a:1"}, false, []string{"a:1", "b:1"}},
		{[]string{"c:1", "b:1"}, true, []string{"a:1", "c:1", "b:1"}},
		{[]string{"d:1"}, true, []string{"a:1", "d:1"}},
		{[]string{"a:1"}, true, []string{"a:1"}},
	} {
		if changed := n.learn(step.named); changed != step.changed || !slices.Equal(n.all(), step.all) {
			t.Errorf("after %v, the addresses are %v and changed is %v; want %v and %v", step.named, n.all(), changed, step.all, step.changed)
		}
	}
	many := make([]string, maxLearned+1)
	for i := range many {
		many[i] = fmt.Sprint("c:", i)
	}
	if n.learn(many); !slices.Equal(n.learned, many[:maxLearned]) {
		t.Errorf("the learned addresses are %v, want the first %d", n.learned, maxLearned)
	}
	if i, j := n.indexAfter("a:1"), n.indexAfter("unknown"); i != 1 || j != 0 {
		t.Errorf("the index after a:1 is %d, after an unknown address %d; want 1 and 0", i, j)
	}
}
