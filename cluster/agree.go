package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/internal/failpoint"
	"github.com/throttledhq/throttled/topology"
)

// aboutHeartbeat: a leader asks with which heartbeat a voter runs.
const aboutHeartbeat topic = "heartbeat"

const (
	agreeEvery = 100 * time.Millisecond // a leader asks whether all voters run with the heartbeat in force
	agreeAgain = time.Second            // likewise, after one has not answered or does not
	// answerWithin is how long a voter may take to answer.
	answerWithin = time.Second
)

// heartbeatAnswer is the heartbeat with which a node runs.
type heartbeatAnswer struct {
	Version uint64 `json:"version"` // on its disk; 0 if it has adopted none
	Runs    int64  `json:"runs"`    // Raft's, in nanoseconds
}

// runsWith returns the heartbeat with which this node runs.
func (n *Node) runsWith() heartbeatAnswer {
	n.pulse.reloading.Lock()
	defer n.pulse.reloading.Unlock()
	return heartbeatAnswer{n.pulse.adopted.Version, int64(n.heartbeat())}
}

// is reports whether a node has acknowledged the heartbeat in force.
func (a heartbeatAnswer) is(h heartbeats) bool {
	return a.Version == h.Version && time.Duration(a.Runs) == h.Now
}

// keepHeartbeat makes the node run with the heartbeat of the cluster, until it ends.
func (n *Node) keepHeartbeat() {
	ticker := time.NewTicker(agreeEvery)
	defer ticker.Stop()
	var warned time.Time
	for {
		if err := n.adopt(); err != nil && time.Since(warned) >= reportEvery {
			warned = time.Now()
			n.log.Warn("this node does not run with the heartbeat of the cluster and tries again; if this is repeated, "+
				"check the disk of the data directory and restart the node", "error", err)
		}
		select {
		case <-n.ended:
			return
		case <-n.pulse.changed:
		case <-ticker.C:
		}
	}
}

// adopt makes the node run with the heartbeat of the cluster, once that is on its disk.
func (n *Node) adopt() error {
	p := n.pulse
	p.reloading.Lock()
	defer p.reloading.Unlock()
	n.mu.Lock()
	h, applied := p.known(), n.fsm.appliedIndex
	n.mu.Unlock()
	if err := p.keep(h, applied, n.config.Stable); err != nil {
		return err
	}
	n.reportHeartbeat()
	l := n.leaderships.current()
	leads, term := l != nil, uint64(0)
	if leads {
		term = l.term
	}
	if target := p.target(h, leads, term); target != n.heartbeat() {
		return n.retune(target)
	}
	return nil
}

// reportHeartbeat logs the heartbeat that the node has adopted, and whether it was started with another: once in each
// process, and after each change. n.pulse.reloading is held.
func (n *Node) reportHeartbeat() {
	p := n.pulse
	if p.adopted == p.logged {
		return
	}
	p.logged = p.adopted
	now := p.adopted.Now
	if own := p.option; own != now {
		n.log.Warn("this node follows the heartbeat of the cluster and not its own raft-heartbeat; "+
			"set the option to the same value, or change the cluster's by CL.CLUSTER SET raft-heartbeat",
			"cluster", now, "raft-heartbeat", own)
		return
	}
	n.log.Info("the heartbeat of the cluster", "heartbeat", now)
}

// superviseHeartbeat sees to it, while this node leads, that a heartbeat is in force, and that it is known when
// all voters run with it.
func (n *Node) superviseHeartbeat() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n.running.Go(func() {
		<-n.ended
		cancel()
	})
	for n.wait(ctx, agreeEvery) == nil {
		l := n.leaderships.current()
		if l == nil || n.pulse.known().settled() {
			continue
		}
		if err := n.advance(ctx, l); err != nil {
			n.log.Debug("the heartbeat is not settled yet", "error", err)
			n.pause(ctx, l)
		}
	}
}

// pause waits before voters are asked again, unless another leadership begins.
func (n *Node) pause(ctx context.Context, l *leadership) {
	ctx, cancel := context.WithTimeout(ctx, agreeAgain)
	defer cancel()
	select {
	case <-ctx.Done():
	case <-l.over:
	}
}

// advance sets the first heartbeat of a cluster, or notes that all voters run with the one in force.
func (n *Node) advance(ctx context.Context, l *leadership) error {
	h := n.pulse.known()
	asked, err := n.askHeartbeats(ctx, h)
	if err != nil {
		return err
	}
	if h.Version == 0 {
		return n.proposeHeartbeat(ctx, l, n.pulse.option, true)
	}
	n.pulse.reloading.Lock()
	n.pulse.ready = readiness{l.term, h.Version}
	n.pulse.reloading.Unlock()
	if err := n.adopt(); err != nil {
		return err
	}
	return n.proposeSettled(ctx, l, h, asked)
}

// askHeartbeats asks all other voters with which heartbeat they run, and returns them. The error names one that
// does not answer, or runs with another than the one in force. Until one is set it is enough to know of
// heartbeats.
func (n *Node) askHeartbeats(ctx context.Context, h heartbeats) (asked []topology.Member, err error) {
	asked = n.others()
	for _, m := range asked {
		ctx, cancel := context.WithTimeout(ctx, answerWithin)
		a, err := n.ask(ctx, m, Question{About: aboutHeartbeat})
		cancel()
		switch {
		case failpoint.Is(failpoint.UnheardHeartbeat):
		case err != nil:
			return nil, fmt.Errorf("ask %s with which heartbeat it runs: %w", m.ID, err)
		case a.Heartbeat == nil:
			return nil, fmt.Errorf("ask %s with which heartbeat it runs: %w", m.ID, errQuestion)
		case h.Version > 0 && !a.Heartbeat.is(h):
			return nil, fmt.Errorf("%s runs with %v yet: %w", m.ID, time.Duration(a.Heartbeat.Runs), topology.ErrChanging)
		}
	}
	return asked, nil
}

// proposeSettled writes to the log that all voters run with the heartbeat in force. They were asked in the term of
// the leadership, so the entry is void in a later term, in which they may run with another.
func (n *Node) proposeSettled(ctx context.Context, l *leadership, h heartbeats, asked []topology.Member) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin) // others wait for the lock
	defer cancel()
	if err := n.pulse.proposing.LockContext(ctx); err != nil {
		return err
	}
	defer n.pulse.proposing.Unlock()
	if !n.runsWith().is(h) || n.pulse.known() != h || !n.isAll(asked) {
		return topology.ErrChanging
	}
	return n.proposeSettings(ctx, l, settings{Settled: h.Version})
}

// isAll reports whether there is no other voter but these, by the newest configuration.
func (n *Node) isAll(asked []topology.Member) bool {
	for _, s := range n.raft.GetConfiguration().Configuration().Servers {
		known := func(m topology.Member) bool { return m.ID == string(s.ID) }
		if s.Suffrage == raft.Voter && string(s.ID) != n.config.Self.ID && !slices.ContainsFunc(asked, known) {
			return false
		}
	}
	return true
}

// SetHeartbeat changes the heartbeat of the cluster, if this node leads: to whole milliseconds from 100 to
// 5000. It returns once that is committed. Until all voters run with it, which a voter that is down puts off,
// answers rest on the smaller of the old and the new one.
func (n *Node) SetHeartbeat(ctx context.Context, d time.Duration) error {
	l, h := n.leaderships.current(), n.pulse.known()
	switch {
	case d < leastHeartbeat || d > mostHeartbeat || d%time.Millisecond != 0:
		return fmt.Errorf("set a heartbeat of %v: %w", d, topology.ErrHeartbeat)
	case l == nil:
		return topology.ErrNoLeader
	case h.Now == d:
		return nil
	case h.Version == 0: // a voter may be too old to read such an entry
		if _, err := n.askHeartbeats(ctx, h); err != nil {
			return fmt.Errorf("set a heartbeat of %v: %w: %w", d, topology.ErrNoHeartbeat, err)
		}
	}
	return n.proposeHeartbeat(ctx, l, d, false)
}

// proposeHeartbeat writes a heartbeat to the log. Other nodes may run with it before this one has applied it, so
// the lease is no longer than it allows from here on. An error leaves open whether it is committed. The first of a
// cluster does not replace one that has been set meanwhile.
func (n *Node) proposeHeartbeat(ctx context.Context, l *leadership, d time.Duration, first bool) error {
	if err := n.pulse.proposing.LockContext(ctx); err != nil {
		return fmt.Errorf("set a heartbeat of %v: %w", d, err)
	}
	defer n.pulse.proposing.Unlock()
	if first && n.pulse.known().Version > 0 {
		return nil
	}
	n.mu.Lock()
	current := n.leaderships.current() == l
	if current {
		n.pulse.ceiling.lower(d)
	}
	n.mu.Unlock()
	if !current {
		return topology.ErrNoLeader
	}
	err := n.proposeSettings(ctx, l, settings{Heartbeat: d.Milliseconds()})
	if err == nil {
		n.pulse.ceiling.lift(l.term)
	}
	return err
}

// proposeSettings writes settings to the log, and waits until they are applied here.
func (n *Node) proposeSettings(ctx context.Context, l *leadership, s settings) error {
	s.Term = l.term
	entry, err := s.entry()
	if err != nil {
		return err
	}
	if err := n.put(ctx, func(within time.Duration) raft.Future { return n.raft.Apply(entry, within) }); err != nil {
		return fmt.Errorf("write settings to the log: %w", err)
	}
	return nil
}
