package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/internal/failpoint"
	"github.com/throttledhq/throttled/topology"
)

const (
	// agreeEvery is the interval at which each node tries to adopt the heartbeat of the cluster, and the leader tries
	// to settle it (see heartbeatAgreement).
	agreeEvery = 100 * time.Millisecond
	// agreeAgain is the pause of the leader after it failed to settle the heartbeat.
	agreeAgain = time.Second
	// answerWithin is the timeout of a question to a voter, and of a call to proposeSettled.
	answerWithin = time.Second
)

// heartbeatAnswer is the answer of a node to the question about the heartbeat that it runs with.
type heartbeatAnswer struct {
	Version uint64 `json:"version"` // version of the heartbeat on its disk; 0 if it has adopted none
	Runs    int64  `json:"runs"`    // heartbeat of Raft, in nanoseconds
	// Leases reports whether the program can read records with leases. Earlier programs do not set it.
	Leases bool `json:"leases,omitempty"`
	// LeaseFormat is the highest format of leases that the program can read. Programs that read CountLeases do not set it.
	LeaseFormat buckets.LeaseFormat `json:"lease_format,omitempty"`
}

// matches reports whether the node has adopted the replicated heartbeat h and runs with it.
func (a heartbeatAnswer) matches(h heartbeats) bool {
	return a.Version == h.Version && time.Duration(a.Runs) == h.Now
}

// heartbeatAgreement makes all voters run with the same heartbeat. Each node adopts the replicated value. The leader
// proposes changes. When all voters run with a value, the leader records in the log that the value is settled.
type heartbeatAgreement struct {
	setting     *heartbeatSetting
	tuner       *tuner
	stable      raft.StableStore
	applied     func() (h heartbeats, index uint64) // the replicated heartbeat, and the newest applied entry
	state       *sync.Mutex                         // guards the applied state, see fsm
	raft        *raftHandle
	leaderships *leaderships
	view        *observer
	peers       *peerClient
	life        *lifetime
	log         *slog.Logger
}

// runsWith returns the heartbeat that this node runs with.
func (a *heartbeatAgreement) runsWith() heartbeatAnswer {
	a.setting.reloading.Lock()
	defer a.setting.reloading.Unlock()
	return heartbeatAnswer{Version: a.setting.adopted.Version, Runs: int64(a.setting.heartbeat()), Leases: true, LeaseFormat: a.setting.readable}
}

// keepAdopted calls adopt when the heartbeat of the cluster may have changed, and periodically, until the node is
// closed. It logs errors.
func (a *heartbeatAgreement) keepAdopted() {
	ticker := time.NewTicker(agreeEvery)
	defer ticker.Stop()
	var warned time.Time
	for {
		if err := a.adopt(); err != nil && time.Since(warned) >= reportEvery {
			warned = time.Now()
			a.log.Warn("this node does not run with the heartbeat of the cluster and tries again; if this is repeated, "+
				"check the disk of the data directory and restart the node", "error", err)
		}
		select {
		case <-a.life.ended():
			return
		case <-a.setting.changed:
		case <-ticker.C:
		}
	}
}

// adopt stores the heartbeat of the cluster on disk, and then makes Raft run with it.
func (a *heartbeatAgreement) adopt() error {
	s := a.setting
	s.reloading.Lock()
	defer s.reloading.Unlock()
	h, applied := a.applied()
	if err := s.adopt(h, applied, a.stable); err != nil {
		return err
	}
	a.logAdopted()
	l := a.leaderships.current()
	leads, term := l != nil, uint64(0)
	if leads {
		term = l.term
	}
	if target := s.target(h, leads, term); target != s.heartbeat() {
		return a.tuner.setHeartbeat(target)
	}
	return nil
}

// logAdopted logs the adopted heartbeat if it has not been logged yet. The log line is a warning if the option
// raft-heartbeat of this node has a different value. The caller must hold a.setting.reloading.
func (a *heartbeatAgreement) logAdopted() {
	s := a.setting
	if s.adopted == s.logged {
		return
	}
	s.logged = s.adopted
	now := s.adopted.Now
	if own := s.option; own != now {
		a.log.Warn("this node uses the heartbeat of the cluster instead of its option raft-heartbeat; "+
			"set the option to the same value, or change the heartbeat of the cluster with CL.CLUSTER SET raft-heartbeat",
			"cluster", now, "raft-heartbeat", own)
		return
	}
	a.log.Info("the heartbeat of the cluster", "heartbeat", now)
}

// supervise calls advance periodically while this node is the leader and the heartbeat is not settled, and then
// permitLeases is called until all formats of leases are permitted. It returns when the node is closed.
func (a *heartbeatAgreement) supervise() {
	ctx := a.life.ctx
	for a.life.sleep(ctx, agreeEvery) == nil {
		l := a.leaderships.current()
		settled := a.setting.replicated().settled()
		if l == nil || settled && a.setting.leases() >= buckets.LatestLeases {
			continue
		}
		next := a.advance
		if settled {
			next = a.permitLeases
		}
		if err := next(ctx, l); err != nil {
			a.log.Debug("the heartbeat is not settled, or leases are not permitted yet", "error", err)
			pauseUnlessOver(ctx, l)
		}
	}
}

// errLeases is returned while a voter runs a version that cannot read all formats of leases.
var errLeases = errors.New("a voter cannot read leases; run the same version on all nodes")

// permitLeases records in the log the format of leases that all voters can read, after it has asked them. Until then, the
// table grants no leases in this format: a voter that cannot read an entry exits. It returns errLeases if no format is added.
func (a *heartbeatAgreement) permitLeases(ctx context.Context, l *leadership) error {
	asked, format := otherVoters(a.view.View()), a.runsWith().LeaseFormat
	for _, m := range asked {
		ctx, cancel := context.WithTimeout(ctx, answerWithin)
		answer, err := a.peers.ask(ctx, m, Question{About: topicHeartbeat})
		cancel()
		if err == nil && answer.Heartbeat != nil {
			format = min(format, formatOf(answer.Heartbeat.Leases, answer.Heartbeat.LeaseFormat))
		}
		if err == nil && (answer.Heartbeat == nil || format <= a.setting.leases()) {
			err = errLeases
		}
		if err != nil {
			return fmt.Errorf("ask %s whether it can read leases: %w", m.ID, err)
		}
	}
	if !a.isAll(asked) {
		return topology.ErrChanging
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	return a.propose(ctx, l, settings{Leases: true, LeaseFormat: format})
}

// pauseUnlessOver blocks for agreeAgain. It returns earlier if the leadership ends or ctx is done.
func pauseUnlessOver(ctx context.Context, l *leadership) {
	ctx, cancel := context.WithTimeout(ctx, agreeAgain)
	defer cancel()
	select {
	case <-ctx.Done():
	case <-l.over:
	}
}

// advance proposes the value of this node's option raft-heartbeat if the cluster has no heartbeat yet. Otherwise it
// settles the current heartbeat. In both cases it first calls askVoters, and returns the error if that call fails.
func (a *heartbeatAgreement) advance(ctx context.Context, l *leadership) error {
	h := a.setting.replicated()
	asked, err := a.askVoters(ctx, h)
	if err != nil {
		return err
	}
	if h.Version == 0 {
		return a.proposeHeartbeat(ctx, l, a.setting.option, true)
	}
	a.setting.reloading.Lock()
	a.setting.ready = readiness{l.term, h.Version}
	a.setting.reloading.Unlock()
	if err := a.adopt(); err != nil {
		return err
	}
	return a.proposeSettled(ctx, l, h, asked)
}

// askVoters asks all other voters which heartbeat they run with, and returns these voters. It returns an error if a
// voter does not answer or does not run with h. If h is zero, because no heartbeat is set yet, any answer is
// sufficient.
func (a *heartbeatAgreement) askVoters(ctx context.Context, h heartbeats) (asked []topology.Member, err error) {
	asked = otherVoters(a.view.View())
	for _, m := range asked {
		ctx, cancel := context.WithTimeout(ctx, answerWithin)
		answer, err := a.peers.ask(ctx, m, Question{About: topicHeartbeat})
		cancel()
		switch {
		case failpoint.Is(failpoint.UnheardHeartbeat):
		case err != nil:
			return nil, fmt.Errorf("ask %s for its heartbeat: %w", m.ID, err)
		case answer.Heartbeat == nil:
			return nil, fmt.Errorf("ask %s for its heartbeat: %w", m.ID, errQuestion)
		case h.Version > 0 && !answer.Heartbeat.matches(h):
			return nil, fmt.Errorf("%s runs with a heartbeat of %v: %w", m.ID, time.Duration(answer.Heartbeat.Runs), topology.ErrChanging)
		}
	}
	return asked, nil
}

// proposeSettled records in the log that all voters run with the current heartbeat. asked contains the voters that have
// answered, in the term of l, that they run with h. The entry is void if it is appended to the log in a later term,
// because the voters may run with a different heartbeat by then. If the heartbeat or the voters have changed since
// askVoters was called, proposeSettled returns topology.ErrChanging.
func (a *heartbeatAgreement) proposeSettled(ctx context.Context, l *leadership, h heartbeats, asked []topology.Member) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin) // limits the time for which other proposals are blocked
	defer cancel()
	if err := a.setting.proposing.lockContext(ctx); err != nil {
		return err
	}
	defer a.setting.proposing.Unlock()
	if !a.runsWith().matches(h) || a.setting.replicated() != h || !a.isAll(asked) {
		return topology.ErrChanging
	}
	return a.propose(ctx, l, settings{Settled: h.Version})
}

// isAll reports whether asked contains all voters of the newest configuration except this node.
func (a *heartbeatAgreement) isAll(asked []topology.Member) bool {
	self := a.view.self
	for _, s := range a.raft.servers() {
		wasAsked := func(m topology.Member) bool { return m.ID == string(s.ID) }
		if isVoter(s) && string(s.ID) != self && !slices.ContainsFunc(asked, wasAsked) {
			return false
		}
	}
	return true
}

// setHeartbeat proposes a heartbeat, and blocks until it is committed.
func (a *heartbeatAgreement) setHeartbeat(ctx context.Context, d time.Duration) error {
	l, h := a.leaderships.current(), a.setting.replicated()
	switch {
	case d < minHeartbeat || d > maxHeartbeat || d%time.Millisecond != 0:
		return fmt.Errorf("set a heartbeat of %v: %w", d, topology.ErrHeartbeat)
	case l == nil:
		return topology.ErrNoLeader
	case h.Now == d:
		return nil
	case h.Version == 0: // all voters must answer: an old version that cannot answer may be unable to read the entry
		if _, err := a.askVoters(ctx, h); err != nil {
			return fmt.Errorf("set a heartbeat of %v: %w: %w", d, topology.ErrNoHeartbeat, err)
		}
	}
	return a.proposeHeartbeat(ctx, l, d, false)
}

// proposeHeartbeat appends a heartbeat to the log, and blocks until this node has applied it. Other nodes may apply the
// heartbeat earlier than this node, so proposeHeartbeat limits the lease before it proposes the heartbeat. After an
// error, the heartbeat may or may not be committed. If first is true and a heartbeat has already been set,
// proposeHeartbeat does nothing.
func (a *heartbeatAgreement) proposeHeartbeat(ctx context.Context, l *leadership, d time.Duration, first bool) error {
	if err := a.setting.proposing.lockContext(ctx); err != nil {
		return fmt.Errorf("set a heartbeat of %v: %w", d, err)
	}
	defer a.setting.proposing.Unlock()
	if first && a.setting.replicated().Version > 0 {
		return nil
	}
	if !a.lowerCeiling(l, d) {
		return topology.ErrNoLeader
	}
	err := a.propose(ctx, l, settings{Heartbeat: d.Milliseconds()})
	if err == nil {
		a.setting.ceiling.lift(l.term)
	}
	return err
}

// lowerCeiling limits the lease to the length that heartbeat d permits. It returns false, and changes nothing, if l is
// no longer the current leadership.
func (a *heartbeatAgreement) lowerCeiling(l *leadership, d time.Duration) bool {
	a.state.Lock()
	defer a.state.Unlock()
	if a.leaderships.current() != l {
		return false
	}
	a.setting.ceiling.lower(d)
	return true
}

// propose appends settings to the log, and blocks until this node has applied them.
func (a *heartbeatAgreement) propose(ctx context.Context, l *leadership, s settings) error {
	s.Term = l.term
	entry, err := s.entry()
	if err != nil {
		return err
	}
	if err := a.life.submit(ctx, func(within time.Duration) raft.Future { return a.raft.Apply(entry, within) }); err != nil {
		return fmt.Errorf("write settings to the log: %w", outcomeError(err))
	}
	return nil
}
