package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/throttledhq/throttled/cluster/transport"
	"github.com/throttledhq/throttled/topology"
)

const (
	announceEvery = 200 * time.Millisecond
	// leaderlessAfter is the time without a leader after which a node asks whether it was removed.
	leaderlessAfter = 4 * time.Second
	// recordEvery is the interval at which a node checks whether its announcement has been applied.
	recordEvery = 100 * time.Millisecond
)

// announcer announces this node to the other nodes, asks the leader to promote it to a voter, and makes the process
// exit if the node was removed. It runs until the node is closed: if a node loses its vote or its announcement, for
// example in a recovery, the announcer requests the vote or announces the node again.
type announcer struct {
	self      *Announcement
	joinAddrs []string     // raft addresses of nodes to join through
	recorded  func() error // records in the data directory that this process has been announced
	raft      *raftHandle
	view      *observer
	announced *announcements
	agreement *heartbeatAgreement
	setting   *heartbeatSetting
	changes   *membership
	bootstrap *bootstrap
	peers     *peerClient
	failure   *failure
	life      *lifetime
	log       *slog.Logger
}

// run calls step periodically until the node is closed. While there is no leader, it also calls checkRemoved at
// intervals of leaderlessAfter.
func (a *announcer) run() {
	ctx := a.life.ctx
	leader := time.Now() // last time at which there was a leader, or at which checkRemoved was called
	for a.life.sleep(ctx, announceEvery) == nil {
		v := a.view.View()
		if v.Leader != "" {
			leader = time.Now()
		} else if time.Since(leader) > leaderlessAfter {
			a.checkRemoved(ctx)
			leader = time.Now()
		}
		if err := a.step(ctx, v); err != nil {
			a.log.Debug("cannot announce this node yet", "error", err)
		}
	}
}

// step performs the next action that is due. If this node is not announced, step announces it. If this node is
// announced but is not a voter, step requests its promotion. Otherwise, on the leader, step announces the nodes of
// the bootstrap handshake. While there is no leader, step does nothing.
func (a *announcer) step(ctx context.Context, v *topology.View) error {
	switch self := v.Find(v.Self); {
	case v.Leader == "":
		return nil
	case !a.isAnnounced() && v.Leading:
		return a.changes.announce(ctx, a.self)
	case !a.isAnnounced():
		return a.peers.askLeader(ctx, Question{About: topicAnnounce, Node: a.self})
	case self != nil && !self.Voter:
		q := Question{About: topicVote, Node: a.self, Applied: a.raft.AppliedIndex(), Version: a.agreement.runsWith().Version}
		return a.peers.askLeader(ctx, q)
	case v.Leading:
		return a.announceOthers(ctx, v)
	}
	return nil
}

// announceOthers announces the nodes of the bootstrap handshake. The announcements contain the incarnations of these
// nodes. If a node loses its data before it has announced itself, its new incarnation does not match, and the node is
// rejected.
func (a *announcer) announceOthers(ctx context.Context, v *topology.View) error {
	for _, other := range a.bootstrap.unannounced(v) {
		if err := a.changes.announce(ctx, &other); err != nil {
			return err
		}
	}
	return nil
}

// isAnnounced reports whether this node has applied the announcement of this process.
func (a *announcer) isAnnounced() bool { return a.announced.of(a.self.ID) == a.self.stored() }

// recordAnnounced waits until this process has been announced, and then records that in the data directory.
func (a *announcer) recordAnnounced() {
	pause := recordEvery
	for a.life.sleep(a.life.ctx, pause) == nil {
		if !a.isAnnounced() {
			continue
		}
		err := a.recorded()
		if err == nil {
			return
		}
		pause = reportEvery
		a.log.Warn("cannot record that this process is announced and tries again; check the disk of the data directory", "error", err)
	}
}

// checkRemoved asks other nodes whether this node is a member. It makes the process exit if the leader answers that
// this node is not a member, or if the other nodes were recovered without this node. Nodes other than the leader only
// return the address of the leader, because their configuration may be outdated.
func (a *announcer) checkRemoved(ctx context.Context) {
	others := slices.Clone(a.view.View().Members)
	for _, addr := range a.joinAddrs { // the node may have been removed before it received the configuration
		others = append(others, topology.Member{Raft: addr})
	}
	for _, m := range others {
		if m.ID == a.self.ID {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, a.setting.heartbeat())
		answer, err := a.peers.askThrough(ctx, m, Question{About: topicOwnMembership, Node: a.self})
		cancel()
		if err == nil && answer.NotMember {
			err = ErrRemoved
		} else if err = isFenced(err); err == nil {
			continue
		}
		a.failure.fail(err)
		return
	}
}

// isFenced checks err, the error of a question to another node. It returns an error if the other node has a different
// recovery that is not older than the recovery of this node.
func isFenced(err error) error {
	var other *transport.RecoveryError
	if errors.As(err, &other) && other.Theirs.Number() >= other.Ours.Number() {
		return fmt.Errorf("this cluster was recovered without this node: %w", other)
	}
	return nil
}
