package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/throttledhq/throttled/topology"
)

const (
	introduceEvery = 200 * time.Millisecond
	lonelyAfter    = 4 * time.Second // without a leader, a node asks whether it was removed
)

// ErrRemoved says that the cluster goes on without this node.
var ErrRemoved = errors.New("this node has been removed from the cluster")

var errEnded = errors.New("the node has ended")

// meet asks all nodes of a cluster that is to begin whether they know better, before this node
// takes part. One that has lost its data would otherwise be taken for one that has it, and
// vote twice.
func (n *Node) meet(ctx context.Context) error {
	for _, m := range n.config.Bootstrap {
		if m.ID == n.config.Self.ID {
			continue
		}
		if err := n.meetOne(ctx, m); err != nil {
			return err
		}
	}
	return n.adoptRecovery("")
}

func (n *Node) meetOne(ctx context.Context, m topology.Member) error {
	said := false
	for {
		a, err := n.ask(ctx, m, Question{About: aboutMeeting, Node: &n.config.Self})
		switch {
		case err == nil && a.Known != n.config.Self.Incarnation:
			return fmt.Errorf("%s says: %w", m.ID, ErrUsed)
		case err == nil:
			n.remember(a.Node)
			return nil
		case !said:
			said = true
			n.log.Info("waiting for a node, to begin the cluster", "node", m.ID, "address", m.Raft, "error", err)
		}
		if err := n.wait(ctx, introduceEvery); err != nil {
			return fmt.Errorf("wait for %s: %w", m.ID, err)
		}
	}
}

// meetWith answers a node that has no data. One that was not met when the cluster began has
// had data once.
func (n *Node) meetWith(who *Announcement, a *Answer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	a.Begun = n.raft != nil
	if !a.Begun && n.met[who.ID].Incarnation == "" {
		n.met[who.ID] = *who
	}
	a.Known = n.fsm.announced[who.ID].Incarnation
	if a.Known == "" {
		a.Known = n.met[who.ID].Incarnation
	}
}

func (n *Node) remember(who *Announcement) {
	if who == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.met[who.ID] = *who
}

// wait returns after d, which must be positive, or with an error when the node or ctx ends. A timer of no duration can
// crash the race detector in a bubble of testing/synctest.
func (n *Node) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-n.ended:
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// introduce tells the others what they should know of the node, and asks for a vote. It goes on for as long
// as the node is there, since all of that can be lost again.
func (n *Node) introduce() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n.running.Go(func() {
		<-n.ended
		cancel()
	})
	lonely := time.Now()
	for n.wait(ctx, introduceEvery) == nil {
		v := n.View()
		if v.Leader != "" {
			lonely = time.Now()
		}
		var err error
		switch self := v.Find(v.Self); {
		case v.Leader == "":
			if time.Since(lonely) > lonelyAfter {
				n.askWhetherRemoved(ctx)
				lonely = time.Now()
			}
		case !n.isAnnounced():
			err = n.askLeader(ctx, Question{About: aboutSelf, Node: &n.config.Self})
		case self != nil && !self.Voter:
			err = n.askLeader(ctx, Question{About: aboutVoting, Node: &n.config.Self, Applied: n.raft.AppliedIndex(), Version: n.runsWith().Version})
		case v.Leading:
			err = n.announceMet(ctx)
		}
		if err != nil {
			n.log.Debug("introducing this node", "error", err)
		}
	}
}

// enter has the leader take this node in, before Raft hears anything. The others still count on one that
// has lost its data, so it would vote a second time; and only the leader knows for certain that
// it was there before.
func (n *Node) enter(ctx context.Context) error {
	said := ""
	for {
		recovery, err := n.join(ctx)
		if err == nil {
			return n.adoptRecovery(recovery)
		}
		if errors.Is(err, ErrUsed) || errors.Is(err, ErrRemoved) {
			return err
		}
		if why := err.Error(); why != said {
			said = why
			n.log.Warn("cannot join the cluster yet", "error", err)
		}
		if err := n.wait(ctx, introduceEvery); err != nil {
			return fmt.Errorf("wait to join the cluster: %w", err)
		}
	}
}

// adoptRecovery takes over the recovery of the cluster that this node begins with.
func (n *Node) adoptRecovery(r topology.Recovery) error {
	if !r.Valid() {
		return fmt.Errorf("join the cluster: recovery %q is none", r)
	}
	n.config.Recovery = r
	if n.config.Adopted == nil {
		return nil
	}
	return n.config.Adopted(r)
}

// join asks to be added, and returns the recovery of the cluster. The error wraps ErrUsed if this node can never be,
// and ErrRemoved if it was removed.
func (n *Node) join(ctx context.Context) (topology.Recovery, error) {
	q := Question{About: aboutJoining, Node: &n.config.Self, Raft: n.config.Advertise}
	var errs []error
	for _, addr := range n.config.Join {
		a, err := n.askThrough(ctx, topology.Member{Raft: addr}, q)
		switch {
		case err == nil:
			n.guard.joined.Store(a.Term)
			return a.Recovery, nil
		case a.Removed:
			return "", fmt.Errorf("join through %s as %s: %w; join under another id", addr, n.config.Self.ID, ErrRemoved)
		}
		if a.Known != "" && a.Known != n.config.Self.Incarnation {
			return "", fmt.Errorf("join through %s as %s: %w", addr, n.config.Self.ID, ErrUsed)
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

// isAnnounced reports whether the others know of this node what they should.
func (n *Node) isAnnounced() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.fsm.announced[n.config.Self.ID] == n.config.Self.kept()
}

// announceMet writes to the log with which data the nodes have begun that the leader has met,
// in case one of them loses it before it has announced itself.
func (n *Node) announceMet(ctx context.Context) error {
	n.mu.Lock()
	var missing []Announcement
	for id, a := range n.met {
		if n.fsm.announced[id].Incarnation == "" && n.find(id) != nil {
			missing = append(missing, a)
		}
	}
	n.mu.Unlock()
	for _, a := range missing {
		if err := n.propose(ctx, &a); err != nil {
			return err
		}
	}
	return nil
}

// askWhetherRemoved ends the node if the leader does not count it in, or if the others were recovered without
// it. Others may not know yet.
func (n *Node) askWhetherRemoved(ctx context.Context) {
	others := slices.Clone(n.View().Members)
	for _, addr := range n.config.Join { // in case it has been removed before it heard of anybody
		others = append(others, topology.Member{Raft: addr})
	}
	for _, m := range others {
		if m.ID == n.config.Self.ID {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, n.heartbeat())
		a, err := n.askThrough(ctx, m, Question{About: aboutBeing, Node: &n.config.Self})
		cancel()
		if err == nil && a.Removed {
			err = ErrRemoved
		} else if err = isFenced(err); err == nil {
			continue
		}
		n.stop(err)
		return
	}
}
