package sidecar

import "testing"

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
	b.follow("")
	u.Suspect()
	u.await(t, b.addr())
}

// TestUpstream_RoleRefused checks that a sidecar whose user may not run ROLE uses the node, and asks only once.
func TestUpstream_RoleRefused(t *testing.T) {
	n := newNode(t)
	n.refuse = true
	u := run(t, Config{Addresses: []string{n.addr()}})
	u.await(t, n.addr())
	for range 3 {
		answered := u.Upstream().Answered
		u.Suspect()
		eventually(t, "a probe is answered", func() bool { return u.Upstream().Answered.After(answered) })
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.roles != 1 {
		t.Errorf("the sidecar has sent ROLE %d times, want once", n.roles)
	}
}

func TestLeaderIn(t *testing.T) {
	for _, tt := range []struct {
		role any
		want string
	}{
		{[]any{"slave", "10.0.0.2", int64(6380), "connected", int64(7)}, "10.0.0.2:6380"},
		{[]any{"slave", "fd00::2", int64(6380), "connected", int64(7)}, "[fd00::2]:6380"},
		{[]any{"slave", "", int64(0), "connect", int64(7)}, ""},
		{[]any{"slave", "10.0.0.2", int64(0), "connect", int64(7)}, ""}, // the leader does not serve clients on such a port
		{[]any{"slave", "10.0.0.2"}, ""},
		{[]any{"master", int64(7), []any{}}, ""},
		{replyError("NOPERM"), ""},
		{int64(0), ""},
		{nil, ""},
	} {
		if got := leaderIn(tt.role); got != tt.want {
			t.Errorf("the leader in %v is %q, want %q", tt.role, got, tt.want)
		}
	}
}
