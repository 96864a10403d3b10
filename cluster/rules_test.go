package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/internal/race"
	"github.com/throttledhq/throttled/ruleset"
	"github.com/throttledhq/throttled/topology"
)

// rulesOf returns the store of a process.
func rulesOf(p *process) *ruleset.Store { return p.config.Rules }

// propose proposes a text on a process.
func (p *process) propose(text string) (ruleset.Result, error) {
	return p.Propose(p.ctx, ruleset.Proposal{Name: "test", Text: text, Author: p.node.id})
}

// setRules proposes a text on a process. The test fails if the proposal fails.
func (s *sim) setRules(p *process, text string) ruleset.Version {
	s.t.Helper()
	r, err := p.propose(text)
	if err != nil || !r.Changed {
		s.t.Fatalf("%s: Propose returned %+v and the error %v", p.node.id, r, err)
	}
	return r.Version
}

// awaitRules waits until all processes have a version as the active one.
func (s *sim) awaitRules(v ruleset.Version) {
	s.t.Helper()
	s.await(fmt.Sprintf("version %d of the rules is active on all nodes", v.Number), 10*time.Second, func() bool {
		for _, p := range s.processes() {
			if a := rulesOf(p).Active(); rulesOf(p).Newest() != v || a.Version != v.Number || a.Err != nil {
				return false
			}
		}
		return true
	})
}

// largeText returns the text of a set with a limit and random comments, which can be compressed by little. Comments take
// less time to parse than limits.
func largeText(bytes int) string {
	var b strings.Builder
	b.WriteString(rulesText(fmt.Sprintf("l%x", rand.Uint64())))
	for b.Len() < bytes {
		b.WriteString("# ")
		for range 20 {
			b.WriteString(strconv.FormatUint(rand.Uint64(), 36))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// TestRulesAreReplicated proposes sets on the leader and on a follower.
func TestRulesAreReplicated(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		first := s.setRules(leader, rulesText("a"))
		if a := rulesOf(leader).Active(); a.Version != 1 {
			t.Errorf("when Propose has returned, the active version of the leader is %d, want 1", a.Version)
		}
		s.awaitRules(first)
		follower := s.followers(leader)[0]
		second := s.setRules(follower, rulesText("b"))
		if second.Number != 2 || second.Author != follower.node.id || rulesOf(leader).Active().Version != 2 {
			t.Errorf("the version of a follower is %+v, and the active version of the leader is %d", second, rulesOf(leader).Active().Version)
		}
		s.awaitRules(second)
		if r, err := follower.propose(rulesText("b")); err != nil || r.Changed || r.Version != second {
			t.Errorf("the same text again: %+v, error %v; want the version %+v, unchanged", r, err, second)
		}
		if _, err := follower.propose("version: 1\ndomain: [\n"); err == nil || !strings.HasPrefix(err.Error(), "test:2:") {
			t.Errorf("an invalid text: error %v, want a line and a column", err)
		}
		base := uint64(1)
		if _, err := follower.Propose(t.Context(), ruleset.Proposal{Text: rulesText("c"), Base: &base}); err == nil || !strings.Contains(err.Error(), ruleset.ErrBase.Error()) {
			t.Errorf("a proposal based on version 1: error %v, want %v", err, ruleset.ErrBase)
		}
		s.converge()
	})
}

// TestLargeRules replicates a set of 10 MB, and checks that it is appended in chunks and that all nodes have its text.
func TestLargeRules(t *testing.T) {
	const size = 10 << 20 / race.Factor
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		s.setRules(leader, rulesText("a"))
		text := largeText(size)
		before := leader.raft.LastIndex()
		v := s.setRules(s.followers(leader)[0], text)
		if n := leader.raft.LastIndex() - before; n < uint64(size/chunkSize/4) {
			t.Errorf("a set of %d bytes has %d entries", size, n)
		}
		if v.Size != len(text) || v.Hash != ruleset.HashOf(text) {
			t.Errorf("the version is %+v, want %d bytes", v, len(text))
		}
		s.awaitRules(v)
		for _, p := range s.processes() {
			if _, got, err := rulesOf(p).Text(0); got != text || err != nil {
				t.Errorf("%s has a text of %d bytes, error %v; want %d bytes", p.node.id, len(got), err, len(text))
			}
		}
		s.converge()
	})
}

// TestFirstRulesNeedAllMembers checks that the first set is refused while a member is down, and later sets are not.
func TestFirstRulesNeedAllMembers(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		s.needAllMembers(topology.ErrNoRules, func(p *process) (uint64, error) {
			_, err := p.propose(rulesText("a"))
			return rulesOf(p).Newest().Number, err
		})
		s.awaitRules(s.setRules(s.leader(), rulesText("b")))
		s.converge()
	})
}

// TestFirstRulesNeedNewPrograms checks that the first set is refused if a member answers like an earlier program.
func TestFirstRulesNeedNewPrograms(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		leader.unknown.Store(topicRules)
		if _, err := leader.propose(rulesText("a")); !errors.Is(err, topology.ErrNoRules) || !strings.Contains(err.Error(), errQuestion.Error()) {
			t.Errorf("with old members, Propose returned the error %v, want %v", err, topology.ErrNoRules)
		}
	})
}

// TestRollbackOutlivesFiles submits the files of three nodes, rolls back, and restarts each node with its old file. The
// rollback stays in effect.
func TestRollbackOutlivesFiles(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		submit := func(p *process) (ruleset.Result, error) {
			return p.Propose(p.ctx, ruleset.Proposal{Text: rulesText("of-" + p.node.id), Author: p.node.id, OnlyNew: true})
		}
		for i, p := range s.processes() {
			if r, err := submit(p); err != nil || r.Version.Number != uint64(i+1) || !r.Changed {
				t.Fatalf("the file of %s: %+v, error %v", p.node.id, r, err)
			}
		}
		e := ruleset.Editor{Store: rulesOf(s.leader()), Log: s.leader()}
		r, err := e.Rollback(t.Context(), 1, "operator")
		if err != nil || r.Version.Number != 4 || r.Version.Hash != ruleset.HashOf(rulesText("of-n1")) {
			t.Fatalf("the rollback returned %+v, error %v", r, err)
		}
		s.awaitRules(r.Version)
		for _, n := range s.list() {
			s.alive(n.id).stop()
			p := n.boot()
			s.converge()
			s.await("the file is submitted", 10*time.Second, func() bool {
				r, err := submit(p)
				if r.Changed {
					t.Fatalf("the file of %s became version %d after the rollback", n.id, r.Version.Number)
				}
				return err == nil
			})
		}
		s.awaitRules(r.Version)
	})
}

// TestRulesInSnapshots checks that a node that has missed sets gets them from a snapshot, that a restarted node has them,
// and that the first snapshots are readable by older programs.
func TestRulesInSnapshots(t *testing.T) {
	few := func(s *raft.Config) { s.TrailingLogs = 1 }
	simulate(t, simConfig{size: 3, tune: few}, func(t *testing.T, s *sim) {
		leader := s.leader()
		if snap, err := leader.fsm.Snapshot(); err != nil || snap.(*snapshot).head.Version != snapshotVersion {
			t.Errorf("without rules, the snapshot is %+v, error %v; want version 1", snap, err)
		}
		s.setRules(leader, rulesText("a"))
		away := s.followers(leader)[0]
		away.crash(false)
		var v ruleset.Version
		for i := range 5 {
			v = s.setRules(leader, rulesText(fmt.Sprintf("b%d", i)))
		}
		s.catchUp(leader, away.node)
		s.awaitRules(v)
		s.crashAll()
		s.converge()
		s.awaitRules(v)
		if got := numbersOf(rulesOf(s.leader()).History()); len(got) != 6 {
			t.Errorf("after a restart of all nodes, the history has the versions %d, want 6", got)
		}
	})
}

// TestRulesOfStandaloneNode checks that a node without other nodes keeps its rules on disk, and that a leader has compiled
// them when its leadership begins.
func TestRulesOfStandaloneNode(t *testing.T) {
	c := soloConfig("n1")
	n := startSolo(t, c)
	r, err := n.Propose(t.Context(), ruleset.Proposal{Text: rulesText("a")})
	if err != nil || !r.Changed {
		t.Fatalf("Propose returned %+v, error %v", r, err)
	}
	closeSolo(t, n)
	again := soloConfig("n1")
	again.Logs, again.Stable, again.Snapshots = c.Logs, c.Stable, c.Snapshots
	again.Rules = ruleset.NewStore()
	again.Fatal = func(err error) { t.Errorf("unexpected fatal error: %v", err) }
	n = New(again)
	n.rules.store = ruleset.NewStore() // the goroutine that compiles rules does not compile those of the node
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer closeSolo(t, n)
	for end := time.After(patience); !n.View().Leading; {
		select {
		case <-n.View().Changed:
		case <-end:
			t.Fatal("the node did not become the leader")
		}
	}
	if a := n.config.Rules.Active(); a.Version != 1 || n.config.Rules.Newest() != r.Version {
		t.Errorf("after a restart, the leader has the active set %+v and the newest version %+v; want %+v", a, n.config.Rules.Newest(), r.Version)
	}
}

// acknowledgedRules is the versions that Propose has returned.
type acknowledgedRules struct {
	mu   sync.Mutex
	list []ruleset.Version
}

// TestRulesThroughLeaderChanges proposes sets on all nodes, with faults, and checks that acknowledged versions stay, that
// no node uses an older version after a newer one, and that a leader has the newest set before it decides.
func TestRulesThroughLeaderChanges(t *testing.T) {
	for seed := range max(1, 3/race.Factor) {
		c := simConfig{size: 3, latency: 2 * time.Millisecond, slowDisk: 3 * time.Millisecond, logger: slog.New(slog.DiscardHandler)}
		simulate(t, c, func(t *testing.T, s *sim) {
			s.setRules(s.leader(), rulesText("first"))
			acked := &acknowledgedRules{}
			stop := make(chan struct{})
			var all sync.WaitGroup
			for i := range 3 {
				all.Go(func() { s.proposeUntil(stop, i, acked) })
			}
			all.Go(func() { s.watchRules(stop) })
			s.disturb(rand.New(rand.NewPCG(uint64(seed), 1)), max(4, 12/race.Factor))
			close(stop)
			all.Wait()
			s.converge()
			s.checkAcknowledged(acked)
		})
	}
}

// proposeUntil proposes sets on random nodes. Some of the sets have several chunks.
func (s *sim) proposeUntil(stop <-chan struct{}, proposer int, acked *acknowledgedRules) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(rand.N(20 * time.Millisecond)):
		}
		processes := s.processes()
		if len(processes) == 0 {
			continue
		}
		p := processes[rand.IntN(len(processes))]
		text := rulesText(fmt.Sprintf("p%d-%d", proposer, i))
		if i%(2*race.Factor) == 0 {
			text = largeText(2 * chunkSize)
		}
		ctx, cancel := context.WithTimeout(p.ctx, 2*time.Second)
		r, err := p.Propose(ctx, ruleset.Proposal{Text: text, Author: p.node.id})
		cancel()
		if err == nil && p.ctx.Err() == nil {
			acked.mu.Lock()
			acked.list = append(acked.list, r.Version)
			acked.mu.Unlock()
		}
	}
}

// watchRules checks the active sets of all processes until stop is closed.
func (s *sim) watchRules(stop <-chan struct{}) {
	newest := map[*process]uint64{}
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Millisecond):
		}
		for _, p := range s.processes() {
			l := p.leaderships.current()
			a := rulesOf(p).Active()
			if a.Version < newest[p] || a.Err != nil || a.Version > 0 && a.Set == nil {
				s.t.Errorf("%s has the active set %+v after version %d", p.node.id, a, newest[p])
			}
			newest[p] = a.Version
			if l != nil && a.Version < rulesOf(p).Newest().Number && p.leaderships.current() == l && rulesOf(p).Active().Version == a.Version {
				s.t.Errorf("%s leads with version %d, and the newest version is %d", p.node.id, a.Version, rulesOf(p).Newest().Number)
			}
		}
	}
}

// disturb crashes, isolates or pauses nodes, or transfers leadership.
func (s *sim) disturb(random *rand.Rand, times int) {
	for range times {
		pass(time.Duration(50+random.IntN(300)) * time.Millisecond)
		p := s.leading()
		if p == nil || random.IntN(3) == 0 {
			processes := s.processes()
			p = processes[random.IntN(len(processes))]
		}
		switch random.IntN(4) {
		case 0:
			p.crash(false)
		case 1:
			s.isolate(p.node.id)
		case 2:
			p.pause()
		case 3:
			if err := p.Transfer(p.ctx, ""); err != nil {
				s.t.Log(err)
			}
		}
		pass(time.Duration(random.IntN(600)) * time.Millisecond)
		s.converge()
	}
}

// checkAcknowledged checks that all nodes have the same history, with all acknowledged versions.
func (s *sim) checkAcknowledged(acked *acknowledgedRules) {
	leader := rulesOf(s.leader())
	s.awaitRules(leader.Newest())
	for _, p := range s.processes() {
		list := rulesOf(p).History()
		for i, n := range numbersOf(list) {
			if n != uint64(i+1) {
				s.t.Fatalf("%s has the versions %d", p.node.id, numbersOf(list))
			}
		}
		for _, v := range list {
			if !leader.Has(v) {
				s.t.Errorf("%s has version %+v, which the leader does not have", p.node.id, v)
			}
		}
	}
	for _, v := range acked.list {
		if !leader.Has(v) {
			s.t.Errorf("the acknowledged version %+v is not in the history", v)
		}
	}
	s.t.Logf("%d versions, %d acknowledged", leader.Newest().Number, len(acked.list))
	if len(acked.list) == 0 {
		s.t.Error("no proposal was acknowledged")
	}
}

// TestOutcomeOfRules checks that the outcome of a failed proposal is unknown only if the entry that activates the version
// was appended to the log.
func TestOutcomeOfRules(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		s.setRules(leader, rulesText("a"))
		late, cancel := context.WithTimeout(t.Context(), -1)
		defer cancel()
		last := leader.raft.LastIndex()
		_, err := leader.Propose(late, ruleset.Proposal{Text: rulesText("b")})
		if !errors.Is(err, topology.ErrUnchanged) || errors.Is(err, errRulesUnknown) || leader.raft.LastIndex() != last {
			t.Errorf("a proposal after its deadline: error %v, want %v and no entry", err, topology.ErrUnchanged)
		}
		s.isolate(leader.node.id)
		short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err = leader.Propose(short, ruleset.Proposal{Text: rulesText("c")}); !errors.Is(err, topology.ErrUnchanged) {
			t.Errorf("a proposal whose first chunk is not committed: error %v, want %v", err, topology.ErrUnchanged)
		}
		short, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		l := leader.rules.leaderships.current()
		if l == nil {
			t.Fatal("the isolated leader has stepped down")
		}
		if f, err := leader.rules.submit(short, l, (&rulesChunk{term: l.term}).entry()); f == nil || err == nil {
			t.Errorf("an entry that is not committed: future %v and the error %v, want both", f, err)
		}
		s.converge()
	})
}

// TestConcurrentProposalsHaveOneWinner proposes sets with one base on all nodes concurrently.
func TestConcurrentProposalsHaveOneWinner(t *testing.T) {
	simulate(t, simConfig{size: 3, latency: time.Millisecond}, func(t *testing.T, s *sim) {
		for base := range uint64(5) {
			var wins atomic.Int64
			var all sync.WaitGroup
			for i, p := range append(s.processes(), s.processes()...) {
				all.Go(func() {
					r, err := p.Propose(p.ctx, ruleset.Proposal{Text: rulesText(fmt.Sprintf("r%d-%d", base, i)), Base: &base})
					if err == nil && r.Changed {
						wins.Add(1)
					}
				})
			}
			all.Wait()
			if wins.Load() != 1 || rulesOf(s.leader()).Newest().Number != base+1 {
				t.Fatalf("%d proposals based on version %d have succeeded, want 1", wins.Load(), base)
			}
		}
		s.converge()
	})
}

// TestProposalOverAStream sends a large proposal to the leader over a stream.
func TestProposalOverAStream(t *testing.T) {
	n := startSolo(t, soloConfig("n1"))
	defer closeSolo(t, n)
	near, far := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- n.control.serveOne(far) }()
	text := largeText(1 << 20)
	q := Question{About: topicPropose, Proposal: &ruleset.Proposal{Author: "n2"}, Size: len(text), body: []byte(text)}
	a, err := askOver(t.Context(), near, q)
	if err != nil || a.Error != "" || a.Rules == nil || a.Rules.Version.Hash != ruleset.HashOf(text) {
		t.Errorf("the answer is %+v, error %v; want version 1", a, err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
