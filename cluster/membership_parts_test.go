package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/topology"
)

// memberRig implements the dependencies of membership without Raft. It records the changes.
type memberRig struct {
	view      topology.View
	decides   bool
	silent    string // id of a follower that does not answer
	commit    uint64
	err       error // result of all changes
	changes   []string
	refreshes int
}

func (r *memberRig) View() *topology.View { return &r.view }
func (r *memberRig) refresh()             { r.refreshes++ }
func (r *memberRig) leads() bool          { return r.decides }
func (r *memberRig) CommitIndex() uint64  { return r.commit }

func (r *memberRig) record(format string, args ...any) doneFuture {
	r.changes = append(r.changes, fmt.Sprintf(format, args...))
	return doneFuture{err: r.err}
}

func (r *memberRig) AddNonvoter(id raft.ServerID, addr raft.ServerAddress, _ uint64, _ time.Duration) raft.IndexFuture {
	return r.record("add %s at %s", id, addr)
}

func (r *memberRig) AddVoter(id raft.ServerID, addr raft.ServerAddress, _ uint64, _ time.Duration) raft.IndexFuture {
	return r.record("vote for %s at %s", id, addr)
}

func (r *memberRig) RemoveServer(id raft.ServerID, _ uint64, _ time.Duration) raft.IndexFuture {
	return r.record("remove %s", id)
}

func (r *memberRig) Apply(entry []byte, _ time.Duration) raft.ApplyFuture {
	a, err := parseAnnouncement(entry)
	if err != nil {
		panic(err)
	}
	return r.record("announce %s %s", a.ID, a.Incarnation)
}

// handOver makes n2 the leader.
func (r *memberRig) handOver(_ context.Context, id string) error {
	_ = r.record("hand over to %q", id)
	r.decides, r.view.Leading, r.view.Leader = false, false, "n2"
	return r.err
}

func (r *memberRig) followers() (list []topology.Follower) {
	for _, m := range r.view.Members {
		if m.ID != r.view.Self {
			list = append(list, topology.Follower{ID: m.ID, Answers: m.ID != r.silent})
		}
	}
	return list
}

func (r *memberRig) askLeader(_ context.Context, q Question) error {
	_ = r.record("ask %s to %s %s", r.view.Leader, q.About, q.Node.ID)
	return nil
}

// newMemberRig returns the membership of n1, the leader. n2 and n3 are voters, and n4 is a nonvoter.
func newMemberRig() (*memberRig, *membership, *lockedLog) {
	r, log := &memberRig{decides: true}, &lockedLog{}
	r.view = topology.View{Self: "n1", Leader: "n1", Leading: true}
	announced := newAnnouncements()
	for i := range 4 {
		id := fmt.Sprint("n", i+1)
		r.view.Members = append(r.view.Members, topology.Member{ID: id, Raft: fmt.Sprintf("h%d:1", i+1), Voter: i < 3})
		announced.set(Announcement{ID: id, Incarnation: "of " + id})
	}
	announced.set(Announcement{ID: "removed", Incarnation: "of removed"})
	m := &membership{
		self: "n1", raft: r, view: r, leader: r, peers: r, announced: announced, records: newNodeRecords(),
		setting: newHeartbeatSetting(shortBeat), life: newLifetime(), log: log.logger(),
	}
	return r, m, log
}

// memberCase is a membership change and its expected result.
type memberCase struct {
	name   string
	change func(m *membership) error
	want   error    // nil: the change succeeds
	text   string   // part of the error
	done   []string // changes that the rig has recorded
}

func runMemberCases(t *testing.T, cases []memberCase, prepare func(r *memberRig, m *membership)) {
	t.Helper()
	for _, c := range cases {
		r, m, _ := newMemberRig()
		prepare(r, m)
		err := c.change(m)
		if (err == nil) != (c.want == nil) || !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: error %v, want %v with the text %q", c.name, err, c.want, c.text)
		}
		if !slices.Equal(r.changes, c.done) {
			t.Errorf("%s: changes %q, want %q", c.name, r.changes, c.done)
		}
	}
}

func unprepared(*memberRig, *membership) {}

// joining calls m.admit for a node that asks to join, and returns the error.
func joining(m *membership, id, incarnation, addr string) error {
	return m.admit(context.Background(), &Question{Node: &Announcement{ID: id, Incarnation: incarnation}, Raft: addr})
}

func TestMembership_Join(t *testing.T) {
	runMemberCases(t, []memberCase{
		{"a new node", func(m *membership) error { return joining(m, "n9", "new", "h9:1") }, nil, "", []string{"add n9 at h9:1", "announce n9 new"}},
		{"a member again", func(m *membership) error { return joining(m, "n4", "of n4", "h4:1") }, nil, "", nil},
		{"a member at another address", func(m *membership) error { return joining(m, "n4", "of n4", "h9:1") }, nil, "", []string{"add n4 at h9:1"}},
		{"a member without its data", func(m *membership) error { return joining(m, "n4", "new", "h4:1") }, ErrUsed, "n4", nil},
		{"a removed node", func(m *membership) error { return joining(m, "removed", "of removed", "h9:1") }, ErrRemoved, "removed", nil},
		{"a removed node without its data", func(m *membership) error { return joining(m, "removed", "new", "h9:1") }, ErrUsed, "removed", nil},
		{"a new node at the address of a member", func(m *membership) error { return joining(m, "n9", "new", "h2:1") }, topology.ErrMember, "the address of n2", nil},
		{"added by an operator", func(m *membership) error { return m.Add(context.Background(), "removed", "h9:1") }, nil, "", []string{"add removed at h9:1"}},
		{"a member added by an operator", func(m *membership) error { return m.Add(context.Background(), "n4", "h9:1") }, topology.ErrMember, "add n4", nil},
	}, unprepared)
}

func TestMembership_Promote(t *testing.T) {
	promote := func(id, incarnation string, applied, version uint64) func(*membership) error {
		return func(m *membership) error {
			q := Question{Node: &Announcement{ID: id, Incarnation: incarnation}, Applied: applied, Version: version}
			return m.promote(context.Background(), &q)
		}
	}
	runMemberCases(t, []memberCase{
		{"ready", promote("n4", "of n4", 4000, 7), nil, "", []string{"vote for n4 at h4:1"}},
		{"exactly promoteLag behind", promote("n4", "of n4", 5000-promoteLag, 7), nil, "", []string{"vote for n4 at h4:1"}},
		{"behind", promote("n4", "of n4", 5000-promoteLag-1, 7), nil, "", nil},
		{"an old version of the heartbeat", promote("n4", "of n4", 5000, 6), nil, "", nil},
		{"a voter", promote("n3", "of n3", 5000, 7), nil, "", nil},
		{"other data", promote("n4", "new", 5000, 7), ErrUsed, "n4", nil},
		{"unknown", promote("n9", "new", 5000, 7), topology.ErrUnknown, "", nil},
	}, func(r *memberRig, m *membership) {
		r.commit = 5000
		m.setting.restore(heartbeats{Version: 7, Now: shortBeat, Least: shortBeat})
	})
}

func TestMembership_Remove(t *testing.T) {
	remove := func(id string) func(*membership) error {
		return func(m *membership) error { return m.Remove(context.Background(), id) }
	}
	transfer := func(id string) func(*membership) error {
		return func(m *membership) error { return m.Transfer(context.Background(), id) }
	}
	runMemberCases(t, []memberCase{
		{"a voter", remove("n2"), nil, "", []string{"remove n2"}},
		{"a node without a vote", remove("n4"), nil, "", []string{"remove n4"}},
		{"an unknown node", remove("n9"), topology.ErrUnknown, "remove n9", nil},
		{"the leader", remove("n1"), nil, "", []string{`hand over to ""`, "ask n2 to remove n1"}},
		{"transfer", transfer("n3"), nil, "", []string{`hand over to "n3"`}},
		{"transfer to any", transfer(""), nil, "", []string{`hand over to ""`}},
		{"transfer to itself", transfer("n1"), topology.ErrRefused, "is already the leader", nil},
		{"transfer to a node without a vote", transfer("n4"), topology.ErrUnknown, "not a voter", nil},
		{"transfer to an unknown node", transfer("n9"), topology.ErrUnknown, "not a voter", nil},
	}, unprepared)
	runMemberCases(t, []memberCase{
		{"a voter that is needed for the majority", remove("n2"), topology.ErrRefused, "remove n2", nil},
		{"the silent voter", remove("n3"), nil, "", []string{"remove n3"}},
		{"the leader while another voter is silent", remove("n1"), topology.ErrRefused, "remove n1", nil},
	}, func(r *memberRig, _ *membership) { r.silent = "n3" })
	runMemberCases(t, []memberCase{{"the last voter", remove("n1"), topology.ErrRefused, "remove n1", nil}},
		func(r *memberRig, _ *membership) { r.view.Members = r.view.Members[:1] })
}

// allChanges returns one change of each kind, by name.
func allChanges() map[string]func(m *membership) error {
	return map[string]func(m *membership) error{
		"add":  func(m *membership) error { return m.Add(context.Background(), "n9", "h9:1") },
		"join": func(m *membership) error { return joining(m, "n9", "new", "h9:1") },
		"vote": func(m *membership) error {
			return m.promote(context.Background(), &Question{Node: &Announcement{ID: "n4", Incarnation: "of n4"}})
		},
		"remove":   func(m *membership) error { return m.Remove(context.Background(), "n2") },
		"transfer": func(m *membership) error { return m.Transfer(context.Background(), "n2") },
	}
}

// TestMembership_OneAtATime checks that changes are rejected while another change is in progress, on a follower, and
// after the lifetime has ended.
func TestMembership_OneAtATime(t *testing.T) {
	failed := errors.New("failed")
	for name, change := range allChanges() {
		r, m, _ := newMemberRig()
		m.change.Lock()
		if err := change(m); !errors.Is(err, topology.ErrChanging) || len(r.changes) > 0 {
			t.Errorf("%s during another change: error %v, changes %q; want ErrChanging and no changes", name, err, r.changes)
		}
		m.change.Unlock()
		r.err = failed
		if err := change(m); !errors.Is(err, failed) || len(r.changes) != 1 || r.refreshes > 0 {
			t.Errorf("%s that fails in Raft: error %v, changes %q, %d refreshes; want one change and no refresh", name, err, r.changes, r.refreshes)
		}
		if r.err = raft.ErrLeadershipLost; name != "transfer" {
			if err := change(m); !errors.Is(err, topology.ErrOutcome) {
				t.Errorf("%s that loses leadership: error %v, want ErrOutcome", name, err)
			}
		}
		r.decides, r.changes = false, nil
		if err := change(m); !errors.Is(err, topology.ErrNoLeader) || len(r.changes) > 0 {
			t.Errorf("%s on a follower: error %v, changes %q; want ErrNoLeader and no changes", name, err, r.changes)
		}
		if name == "transfer" {
			continue // a transfer does not call submit
		}
		r.decides = true
		m.life.end()
		if err := change(m); !errors.Is(err, errClosed) || len(r.changes) > 0 {
			t.Errorf("%s after the end of the lifetime: error %v, changes %q; want errClosed and no changes", name, err, r.changes)
		}
	}
}

// TestMembership_Log checks that joins and promotions are logged, and that the view is refreshed after each change.
func TestMembership_Log(t *testing.T) {
	for _, tt := range []struct{ change, log string }{
		{"add", `a node has joined and has no vote yet" node=n9 address=h9:1`},
		{"join", `a node has joined and has no vote yet" node=n9 address=h9:1`},
		{"vote", `a node has caught up and has a vote now" node=n4`},
		{"remove", ""},
	} {
		r, m, log := newMemberRig()
		if err := allChanges()[tt.change](m); err != nil {
			t.Errorf("%s: unexpected error %v", tt.change, err)
		}
		if log.count(tt.log) == 0 || r.refreshes != 1 {
			t.Errorf("%s: %d refreshes, want 1; logged %q", tt.change, r.refreshes, log.buf.String())
		}
	}
}

// TestMembership_Announce checks that a process whose data is out of date according to the records is rejected.
func TestMembership_Announce(t *testing.T) {
	r, m, _ := newMemberRig()
	if err := m.records.recordReturn(&Announcement{ID: "n4", Boot: 5, Process: "p"}); err != nil {
		t.Fatal(err)
	}
	for boot, want := range map[uint64]error{4: ErrStale, 6: nil} {
		r.changes = nil
		err := m.announce(t.Context(), &Announcement{ID: "n4", Incarnation: "of n4", Boot: boot, Process: "q"})
		if !errors.Is(err, want) || (len(r.changes) == 1) != (want == nil) {
			t.Errorf("announcement with boot number %d: error %v, changes %q; want ErrStale and no change for 4, one change for 6", boot, err, r.changes)
		}
	}
}
