package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
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
	created map[string]uint64 // of the version that was applied last
	refused string            // text that is not valid
}

var errRefused = errors.New("refused by the test")

func (u *usersLog) Apply(number uint64, text string, created map[string]uint64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if text == u.refused && text != "" {
		return errRefused
	}
	u.list, u.created = append(u.list, usersVersion{Number: number, Size: len(text), text: text}), created
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

// creations returns the creation numbers of the version that was applied last.
func (u *usersLog) creations() map[string]uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.created
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
		s.needAllMembers(topology.ErrNoUsers, func(p *process) (uint64, error) {
			_, err := p.ProposeUsers(p.ctx, 0, "first")
			return p.users.active().Number, err
		})
		version := s.setUsers(s.leader(), "second")
		s.converge()
		s.awaitUsers(version)
	})
}

// TestFirstUsersNeedNewPrograms checks that the first users are refused if a member answers like an earlier program.
func TestFirstUsersNeedNewPrograms(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		leader.unknown.Store(topicUsers)
		for _, p := range s.processes() {
			if _, err := p.ProposeUsers(t.Context(), 0, "first"); !errors.Is(err, topology.ErrNoUsers) || !strings.Contains(err.Error(), errQuestion.Error()) {
				t.Errorf("%s: with old members, ProposeUsers returned the error %v, want %v", p.node.id, err, topology.ErrNoUsers)
			}
		}
		follower := s.followers(leader)[0]
		follower.unknown.Store(topicProposeUsers)
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
		s.catchUp(leader, away.node)
		s.awaitUsers(version)
		s.checkUsers(version, "missed 4")
		s.crashAll()
		s.converge()
		s.awaitUsers(version)
		s.awaitRules(rules)
	})
}

// TestUsersOfRestartedNode restarts a node that cannot reach the other nodes. It uses the newest version that it has stored,
// and never an earlier one.
func TestUsersOfRestartedNode(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		var version uint64
		for i := range 5 {
			version = s.setUsers(s.leader(), fmt.Sprint("text ", i))
		}
		s.crashAll()
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

// TestUserCreationsAreReplicated deletes a user and creates it again. The nodes have the same creation number, also a node that
// was restarted and a node that got the users from a snapshot.
func TestUserCreationsAreReplicated(t *testing.T) {
	few := func(s *raft.Config) { s.TrailingLogs = 1 }
	simulate(t, simConfig{size: 3, tune: few}, func(t *testing.T, s *sim) {
		leader := s.leader()
		s.setUsers(leader, "user app on\nuser bob on\n")
		away := s.followers(leader)[0]
		away.crash(false)
		s.setUsers(leader, "user bob on\n")
		created := s.setUsers(leader, "user app on\nuser bob on\n")
		last := s.setUsers(leader, "user app off\nuser bob on\n")
		check := func() {
			t.Helper()
			s.awaitUsers(last)
			for _, p := range s.processes() {
				if got, want := p.users.creations(), map[string]uint64{"app": created}; !maps.Equal(got, want) {
					t.Errorf("%s has the creation numbers %v, want %v", p.node.id, got, want)
				}
			}
		}
		for range 5 {
			s.grant(leader, "s")
		}
		s.catchUp(leader, away.node)
		check()
		s.crashAll()
		lone := s.list()[0].boot()
		<-lone.started
		if got := lone.users.creations()["app"]; got != created {
			t.Errorf("without other nodes, the creation number is %d, want %d", got, created)
		}
		s.converge()
		check()
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
