package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/internal/race"
	"github.com/throttledhq/throttled/topology"
)

// usersLog records the versions of the users that were applied. It implements Users.
type usersLog struct {
	mu      sync.Mutex
	list    []usersVersion
	refused string // text that is not valid
}

var errRefused = errors.New("refused by the test")

func (u *usersLog) Apply(number uint64, text string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if text == u.refused && text != "" {
		return errRefused
	}
	u.list = append(u.list, usersVersion{number, len(text), text})
	return nil
}

func (u *usersLog) refuse(text string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.refused = text
}

// applied returns all versions that were applied.
func (u *usersLog) applied() []usersVersion {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.list)
}

// active returns the version that was applied last.
func (u *usersLog) active() (v usersVersion) {
	if list := u.applied(); len(list) > 0 {
		v = list[len(list)-1]
	}
	return v
}

// setUsers replaces the active users of a process. The test fails if the proposal fails.
func (s *sim) setUsers(p *process, text string) uint64 {
	s.t.Helper()
	base := p.users.active().Number
	version, err := p.ProposeUsers(p.ctx, base, text)
	if err != nil || version <= base {
		s.t.Fatalf("%s: ProposeUsers returned %d and the error %v, want a version after %d", p.node.id, version, err, base)
	}
	return version
}

// checkUsers checks that all processes use a version.
func (s *sim) checkUsers(number uint64, text string) {
	s.t.Helper()
	for _, p := range s.processes() {
		if v := p.users.active(); v.Number != number || v.text != text {
			s.t.Errorf("%s has version %d of the users, %.50q; want %d, %.50q", p.node.id, v.Number, v.text, number, text)
		}
	}
}

// awaitUsers waits until all processes use a version.
func (s *sim) awaitUsers(number uint64) {
	s.t.Helper()
	s.await(fmt.Sprintf("version %d of the users is active on all nodes", number), 10*time.Second, func() bool {
		return !slices.ContainsFunc(s.processes(), func(p *process) bool { return p.users.active().Number != number })
	})
}

// TestUsersAreReplicated changes the users on the leader and on a follower. All nodes use a version when ProposeUsers
// returns.
func TestUsersAreReplicated(t *testing.T) {
	simulate(t, simConfig{size: 3, latency: 2 * time.Millisecond}, func(t *testing.T, s *sim) {
		leader := s.leader()
		first := s.setUsers(leader, "first")
		s.checkUsers(first, "first")
		follower := s.followers(leader)[0]
		second := s.setUsers(follower, "second")
		s.checkUsers(second, "second")
		for _, p := range s.processes() {
			if newest, err := p.ProposeUsers(t.Context(), first, "other"); !errors.Is(err, topology.ErrUsersChanged) || newest != second {
				t.Errorf("%s: a change of version %d returned %d and the error %v, want %d and %v", p.node.id, first, newest, err, second, topology.ErrUsersChanged)
			}
			if _, err := p.ProposeUsers(t.Context(), second, strings.Repeat("x", acl.MaxText+1)); !errors.Is(err, acl.ErrTooLong) {
				t.Errorf("%s: a text of more than 1 MiB returned the error %v, want %v", p.node.id, err, acl.ErrTooLong)
			}
		}
		largest := strings.Repeat("x", acl.MaxText)
		s.checkUsers(s.setUsers(follower, largest), largest)
		s.converge()
	})
}

// TestFirstUsersNeedAllMembers checks that the first users are refused while a member is down, and later ones are not.
func TestFirstUsersNeedAllMembers(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		down := s.followers(leader)[0]
		down.crash(false)
		if _, err := leader.ProposeUsers(t.Context(), 0, "first"); !errors.Is(err, topology.ErrNoUsers) || leader.users.active().Number != 0 {
			t.Errorf("with a member down, ProposeUsers returned the error %v, want %v", err, topology.ErrNoUsers)
		}
		<-down.node.boot().started
		s.converge()
		s.setUsers(s.leader(), "first")
		s.followers(s.leader())[0].crash(false)
		version := s.setUsers(s.leader(), "second")
		s.converge()
		s.awaitUsers(version)
	})
}

// TestFirstUsersNeedNewPrograms checks that the first users are refused if a member answers like an earlier program.
func TestFirstUsersNeedNewPrograms(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		leader.peers.peers = oldPeers{leader.peers.peers, topicUsers}
		for _, p := range s.processes() {
			if _, err := p.ProposeUsers(t.Context(), 0, "first"); !errors.Is(err, topology.ErrNoUsers) || !strings.Contains(err.Error(), errQuestion.Error()) {
				t.Errorf("%s: with old members, ProposeUsers returned the error %v, want %v", p.node.id, err, topology.ErrNoUsers)
			}
		}
		follower := s.followers(leader)[0]
		follower.peers.peers = oldPeers{follower.peers.peers, topicProposeUsers}
		if _, err := follower.ProposeUsers(t.Context(), 0, "first"); !errors.Is(err, topology.ErrNoUsers) {
			t.Errorf("with an old leader, ProposeUsers returned the error %v, want %v", err, topology.ErrNoUsers)
		}
		s.converge()
		s.checkUsers(0, "")
	})
}

// TestUsersInSnapshots checks that a node that has missed versions gets the newest one from a snapshot, and the versions
// of snapshots.
func TestUsersInSnapshots(t *testing.T) {
	few := func(s *raft.Config) { s.TrailingLogs = 1 }
	simulate(t, simConfig{size: 3, tune: few}, func(t *testing.T, s *sim) {
		leader := s.leader()
		versionIs := func(want int) {
			t.Helper()
			if snap, err := leader.fsm.Snapshot(); err != nil || snap.(*snapshot).head.Version != want {
				t.Errorf("the snapshot is %+v, error %v; want version %d", snap, err, want)
			}
		}
		versionIs(snapshotVersion)
		s.setUsers(leader, "first")
		versionIs(usersSnapshotVersion)
		rules := s.setRules(leader, rulesText("a"))
		away := s.followers(leader)[0]
		away.crash(false)
		var version uint64
		for i := range 5 {
			version = s.setUsers(leader, fmt.Sprint("missed ", i))
		}
		versionIs(usersSnapshotVersion)
		if err := leader.Snapshot(); err != nil {
			t.Fatal(err)
		}
		s.grant(leader, "s")
		back := away.node.boot()
		s.converge()
		if back.fsm.restores.Load() == 0 {
			t.Error("the node did not get a snapshot")
		}
		s.awaitUsers(version)
		s.checkUsers(version, "missed 4")
		for _, n := range s.list() {
			s.alive(n.id).crash(false)
		}
		s.converge()
		s.awaitUsers(version)
		s.awaitRules(rules)
	})
}

// TestUsersOfRestartedNode restarts a node that cannot reach the other nodes. It uses the newest version that it knows,
// and never an earlier one.
func TestUsersOfRestartedNode(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		var version uint64
		for i := range 5 {
			version = s.setUsers(s.leader(), fmt.Sprint("text ", i))
		}
		for _, n := range s.list() {
			s.alive(n.id).crash(false)
		}
		p := s.list()[0].boot()
		<-p.started
		pass(time.Second)
		if v := p.users.active(); v.Number != version || v.text != "text 4" {
			t.Errorf("without other nodes, the active version is %d, %q; want %d", v.Number, v.text, version)
		}
		s.converge()
		next := s.setUsers(s.leader(), "next")
		s.awaitUsers(next)
		if list := p.users.applied(); len(list) != 2 || list[0].Number != version || list[1].Number != next {
			t.Errorf("the node has applied %+v, want the versions %d and %d", list, version, next)
		}
	})
}

// TestStoredUsersThatLogLacks starts a node with a stored version that its log does not have, as after a recovery of the
// cluster from a different node. The node uses the version in the log once the index of the stored version is applied.
func TestStoredUsersThatLogLacks(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		version := s.setUsers(s.leader(), "text")
		node := s.followers(s.leader())[0].node
		s.alive(node.id).crash(false)
		stored := s.leader().raft.LastIndex() + 20
		if err := node.disk.Set(usersKey, append([]byte{byte(stored), 0, 0, 0, 0, 0, 0, 0}, "lost"...)); err != nil {
			t.Fatal(err)
		}
		p := node.boot()
		s.converge()
		if v := p.users.active(); v.text != "lost" {
			t.Errorf("before entry %d, the active version is %+v, want the stored one", stored, v)
		}
		for range 20 {
			s.grant(s.leader(), "s")
		}
		s.awaitUsers(version)
		s.checkUsers(version, "text")
	})
}

// TestUsersThroughLeaderChanges changes the users on all nodes, with faults. Each change adds a name to the newest text.
// The final text must contain all acknowledged names, and each name at most once.
func TestUsersThroughLeaderChanges(t *testing.T) {
	for seed := range max(1, 3/race.Factor) {
		c := simConfig{size: 3, latency: 2 * time.Millisecond, slowDisk: 3 * time.Millisecond, logger: slog.New(slog.DiscardHandler)}
		simulate(t, c, func(t *testing.T, s *sim) {
			s.setUsers(s.leader(), "")
			stop := make(chan struct{})
			acked := make([][]string, 3)
			var all sync.WaitGroup
			for i := range acked {
				all.Go(func() { acked[i] = s.addUsersUntil(stop, i) })
			}
			s.disturb(rand.New(rand.NewPCG(uint64(seed), 2)), max(4, 12/race.Factor))
			close(stop)
			all.Wait()
			s.converge()
			s.checkAdded(slices.Concat(acked...))
		})
	}
}

// addUsersUntil adds names to the users on random nodes, and returns the acknowledged ones.
func (s *sim) addUsersUntil(stop <-chan struct{}, proposer int) (acked []string) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return acked
		case <-time.After(rand.N(20 * time.Millisecond)):
		}
		processes := s.processes()
		if len(processes) == 0 {
			continue
		}
		p := processes[rand.IntN(len(processes))]
		name := fmt.Sprintf("p%d-%d;", proposer, i)
		ctx, cancel := context.WithTimeout(p.ctx, 2*time.Second)
		v := p.users.active()
		_, err := p.ProposeUsers(ctx, v.Number, v.text+name)
		cancel()
		if err == nil && p.ctx.Err() == nil {
			acked = append(acked, name)
		}
	}
}

// checkAdded checks that all processes use the same version, which has the acknowledged names.
func (s *sim) checkAdded(acked []string) {
	last := s.leader().fsm.users.usersVersion
	s.awaitUsers(last.Number)
	s.checkUsers(last.Number, last.text)
	for _, p := range s.processes() {
		if !slices.IsSortedFunc(p.users.applied(), func(a, b usersVersion) int { return int(a.Number) - int(b.Number) }) {
			s.t.Errorf("%s has applied an older version after a newer one", p.node.id)
		}
	}
	for _, name := range acked {
		if strings.Count(last.text, name) != 1 {
			s.t.Errorf("the users have the acknowledged name %q %d times", name, strings.Count(last.text, name))
		}
	}
	s.t.Logf("%d names, %d acknowledged", strings.Count(last.text, ";"), len(acked))
	if len(acked) == 0 {
		s.t.Error("no change was acknowledged")
	}
}

// TestConcurrentUsersHaveOneWinner replaces one version by different texts on all nodes concurrently.
func TestConcurrentUsersHaveOneWinner(t *testing.T) {
	simulate(t, simConfig{size: 3, latency: time.Millisecond}, func(t *testing.T, s *sim) {
		for round := range 5 {
			base := s.leader().users.active().Number
			var wins, conflicts atomic.Int64
			var all sync.WaitGroup
			for i, p := range append(s.processes(), s.processes()...) {
				all.Go(func() {
					switch _, err := p.ProposeUsers(p.ctx, base, fmt.Sprint(round, " ", i)); {
					case err == nil:
						wins.Add(1)
					case errors.Is(err, topology.ErrUsersChanged):
						conflicts.Add(1)
					}
				})
			}
			all.Wait()
			if wins.Load() != 1 || conflicts.Load() != 5 {
				t.Fatalf("of 6 changes of version %d, %d were made and %d were conflicts; want 1 and 5", base, wins.Load(), conflicts.Load())
			}
		}
		s.converge()
		if n := s.leader().disk.countUsers(); n != 5 {
			t.Errorf("the log has %d entries of users, want 5: a conflict that the leader knows needs no entry", n)
		}
	})
}

// countUsers returns the number of entries of users in the log.
func (d *disk) countUsers() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.logs {
		if l.Type == raft.LogCommand && l.Data[0] == usersEntry {
			n++
		}
	}
	return n
}

// TestUsersAfterUnknownOutcome changes a version while an earlier change of it, whose outcome is unknown, is committed.
func TestUsersAfterUnknownOutcome(t *testing.T) {
	simulate(t, simConfig{size: 3, latency: 2 * time.Millisecond}, func(t *testing.T, s *sim) {
		leader := s.leader()
		base := s.setUsers(leader, "base")
		short, cancel := context.WithTimeout(t.Context(), time.Microsecond) // much less than a commit takes
		defer cancel()
		if _, err := leader.ProposeUsers(short, base, "first"); !errors.Is(err, topology.ErrUsersUnknown) {
			t.Errorf("a change that is not committed in time: error %v, want %v", err, topology.ErrUsersUnknown)
		}
		newest, err := leader.ProposeUsers(t.Context(), base, "second")
		if !errors.Is(err, topology.ErrUsersChanged) || leader.fsm.users.text != "first" || newest != leader.fsm.users.Number {
			t.Errorf("the next change returned %d and the error %v, want %v; the users are %q", newest, err, topology.ErrUsersChanged, leader.fsm.users.text)
		}
		s.converge()
		s.awaitUsers(newest)
	})
}

// TestVoidUsers appends entries to the log whose base is not the newest version. They change nothing.
func TestVoidUsers(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		version := s.setUsers(leader, "text")
		for _, base := range []uint64{0, version - 1, version + 1} {
			f, err := leader.Node.users.submit(t.Context(), leader.leaderships.current(), usersEntryOf(base, "void"))
			if err != nil || f.Response() != version {
				t.Errorf("base %d: future %v, error %v; want the response %d", base, f, err, version)
			}
		}
		s.converge()
		s.checkUsers(version, "text")
	})
}

// TestOutcomeOfUsers loses proposals, and checks whether the outcome is reported as unknown.
func TestOutcomeOfUsers(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		first := s.setUsers(leader, "first")
		late, cancel := context.WithTimeout(t.Context(), -1)
		defer cancel()
		if _, err := leader.ProposeUsers(late, first, "late"); !errors.Is(err, topology.ErrUnchanged) {
			t.Errorf("a change after its deadline: error %v, want %v", err, topology.ErrUnchanged)
		}
		follower := s.followers(leader)[0]
		lose := func(from, to *process, text string) {
			t.Helper()
			s.cut(from.node.id, to.node.id)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			base := from.users.active().Number
			if _, err := follower.ProposeUsers(ctx, base, text); !errors.Is(err, topology.ErrUsersUnknown) {
				t.Errorf("a change by a follower, with messages from %s to %s lost: error %v, want %v", from.node.id, to.node.id, err, topology.ErrUsersUnknown)
			}
			s.heal()
		}
		lose(follower, leader, "question lost")
		s.converge()
		s.checkUsers(first, "first")
		lose(leader, follower, "answer lost")
		s.await("the change is active", 10*time.Second, func() bool { return s.leader().users.active().text == "answer lost" })
		s.converge()
		s.awaitUsers(s.leader().users.active().Number)
		old := s.leader()
		s.isolate(old.node.id)
		short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := old.ProposeUsers(short, old.users.active().Number, "not committed"); !errors.Is(err, topology.ErrUsersUnknown) {
			t.Errorf("a change by an isolated leader: error %v, want %v", err, topology.ErrUsersUnknown)
		}
		version := s.setUsers(s.newLeader(old), "committed")
		s.converge()
		s.awaitUsers(version)
		s.checkUsers(version, "committed")
	})
}

// TestUsersWhileMemberIsSilent changes the users while a member is paused. The change is acknowledged after a limited
// time, and the member uses it later.
func TestUsersWhileMemberIsSilent(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		s.setUsers(s.leader(), "first")
		paused := s.followers(s.leader())[0]
		paused.pause()
		begun := time.Now()
		version := s.setUsers(s.leader(), "second")
		if took := time.Since(begun); took < answerWithin || took > 2*answerWithin {
			t.Errorf("the change took %v, want about %v", took, answerWithin)
		}
		paused.resume()
		s.converge()
		s.awaitUsers(version)
	})
}

// TestUsersThatANodeDoesNotKnow changes the users to a text that is not valid on one node. This node keeps its users, and
// uses the next valid ones.
func TestUsersThatANodeDoesNotKnow(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		old := s.followers(leader)[0]
		old.users.refuse("new")
		first := s.setUsers(leader, "first")
		s.setUsers(leader, "new")
		if v := old.users.active(); v.Number != first || leader.users.active().text != "new" {
			t.Errorf("the node that does not know the users has version %+v, want %d", v, first)
		}
		old.crash(false)
		restarted := old.node.boot()
		restarted.users.refuse("new")
		<-restarted.started
		s.converge()
		if v := restarted.users.active(); v.text != "first" {
			t.Errorf("after a restart, the node has version %+v, want %d", v, first)
		}
		version := s.setUsers(s.leader(), "third")
		s.awaitUsers(version)
	})
}

// TestUsersOverAStream sends a proposal to the leader over a stream.
func TestUsersOverAStream(t *testing.T) {
	n := startSolo(t, soloConfig("n1"))
	defer closeSolo(t, n)
	ask := func(base uint64, text string) Answer {
		near, far := net.Pipe()
		served := make(chan error, 1)
		go func() { served <- n.control.serveOne(far) }()
		a, err := AskOver(t.Context(), near, Question{About: topicProposeUsers, Users: base, Size: len(text), body: []byte(text)})
		if err := errors.Join(err, <-served); err != nil {
			t.Error(err)
		}
		return a
	}
	a := ask(0, strings.Repeat("x", acl.MaxText))
	if a.Error != "" || a.Users == nil || a.Users.Version == 0 || a.Users.Problem != "" {
		t.Fatalf("the answer is %+v, want a version", a)
	}
	if b := ask(0, "other"); b.Users == nil || usersProblems[b.Users.Problem] != topology.ErrUsersChanged || b.Users.Version != a.Users.Version {
		t.Errorf("the answer to a change of version 0 is %+v, want a conflict with version %d", b, a.Users.Version)
	}
	if v, _ := n.fsm.newestUsers(); v.Number != a.Users.Version || v.Size != acl.MaxText {
		t.Errorf("the newest version is %d of %d bytes, want %d", v.Number, v.Size, a.Users.Version)
	}
}

// TestUsersErrorsOfLeader asks nodes that are not the leader any more, or whose proposal fails. The sentinels of the errors
// are kept.
func TestUsersErrorsOfLeader(t *testing.T) {
	for _, want := range []error{topology.ErrUsersChanged, topology.ErrUsersUnknown, topology.ErrUnchanged, topology.ErrNoUsers, topology.ErrNoLeader} {
		r, c := newAnswerRig()
		r.takesPart, r.decides, r.err = true, true, want
		p := usersProposals{proposer: proposer{document: "users", leaderships: newLeaderships(), peers: &peerClient{
			peers: replies{c}, members: viewOf{{ID: "n1", Raft: "h1:1"}, {ID: "n2", Raft: "h2:1"}},
		}}}
		if _, err := p.ProposeUsers(t.Context(), 7, "text"); !errors.Is(err, want) || err.Error() != want.Error() {
			t.Errorf("the error of the leader was %v, and the follower returned %v", want, err)
		}
	}
}

// replies answers questions by a control.
type replies struct{ *control }

func (r replies) Ask(ctx context.Context, _ topology.Member, q Question) (Answer, error) {
	return r.reply(ctx, q), nil
}

func (replies) Dial(context.Context, topology.Member) (net.Conn, error) { return nil, net.ErrClosed }

// viewOf is the members of a cluster, in which the first one is the leader and the last one asks.
type viewOf []topology.Member

func (v viewOf) View() *topology.View {
	return &topology.View{Self: v[len(v)-1].ID, Leader: v[0].ID, Members: v}
}

func (v viewOf) member(string) *topology.Member { return nil }
