package cluster

import (
	"cmp"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/topology"
)

// lookEvery is how often a node looks by itself who leads.
const lookEvery = 50 * time.Millisecond

// shownView is a view with the means to say that there is a newer one.
type shownView struct {
	topology.View
	changed chan struct{}
}

// View returns what is known at present.
func (n *Node) View() *topology.View { return &n.view.Load().View }

// refresh makes a new view.
func (n *Node) refresh() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.publish()
}

// publish makes a new view, if anything in it has changed. n.mu is held.
func (n *Node) publish() {
	if n.raft == nil {
		return // Raft is being started
	}
	leader := n.knownLeader()
	next := &shownView{changed: make(chan struct{})}
	next.View = topology.View{
		Cluster: n.config.Cluster,
		Self:    n.config.Self.ID,
		Leader:  leader,
		Leading: n.leaderships.decides(),
		Term:    n.raft.CurrentTerm(),
		Members: n.members(),
		Changed: next.changed,
	}
	old := n.view.Load()
	if same(&old.View, &next.View) {
		return
	}
	n.view.Store(next)
	if !slices.Equal(old.Members, next.Members) {
		n.strangers.forget()
	}
	close(old.changed)
}

// knownLeader returns the id of the node that leads, or "". One that is silent leads nobody, though Raft
// may take three times as long to see that, and those who ask are to be told in time. Nor does one whose process has
// ended.
func (n *Node) knownLeader() string {
	l := n.raftLeader()
	if n.raft.State() == raft.Follower && n.sinceContact() > n.heartbeat() || n.isGone(l) {
		return ""
	}
	return l.leader
}

// sinceContact returns for how long this node has received nothing from a leader. Raft counts the first message of one
// only when it is on the disk.
func (n *Node) sinceContact() time.Duration {
	return min(time.Since(n.raft.LastContact()), n.clock.monotonic()-time.Duration(n.leaderSeen.Load()))
}

func same(a, b *topology.View) bool {
	return a.Leader == b.Leader && a.Leading == b.Leading && a.Term == b.Term && slices.Equal(a.Members, b.Members)
}

// members returns the nodes by the newest configuration, in the order of their ids, with what
// they have announced. n.mu is held.
func (n *Node) members() []topology.Member {
	var list []topology.Member
	for _, s := range n.raft.GetConfiguration().Configuration().Servers {
		a := n.fsm.announced[string(s.ID)]
		list = append(list, topology.Member{
			ID: string(s.ID), Raft: string(s.Address), Voter: s.Suffrage == raft.Voter,
			Host: a.Host, Port: a.Port, ClusterPort: a.ClusterPort, SentinelPort: a.SentinelPort,
			LeaderPort: a.LeaderPort,
		})
	}
	slices.SortFunc(list, func(a, b topology.Member) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// observe makes a new view whenever Raft sees another leader or another peer. It looks by itself, too: at
// first, since a node that comes back may have heard of its leader before anybody observes, and then
// at times, since observations are dropped where they come too fast.
func (n *Node) observe() {
	seen := make(chan raft.Observation, 64)
	observer := raft.NewObserver(seen, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.LeaderObservation, raft.PeerObservation, raft.RequestPreVoteRequest:
			return true
		}
		return false
	})
	n.raft.RegisterObserver(observer)
	n.running.Go(func() {
		defer n.raft.DeregisterObserver(observer)
		ticker := time.NewTicker(lookEvery)
		defer ticker.Stop()
		n.refresh()
		for {
			select {
			case <-n.ended:
				return
			case <-ticker.C:
				n.refresh()
			case o := <-seen:
				n.note(o.Data)
			}
		}
	})
}

func (n *Node) note(seen any) {
	switch o := seen.(type) {
	case raft.RequestPreVoteRequest:
		n.checkLeaderSoon()
		return
	case raft.LeaderObservation:
		if o.LeaderID != "" {
			n.leaderSeen.Store(int64(n.clock.monotonic()))
		}
	}
	n.refresh()
}

// NodeAt returns the id of the member at a raft address, or "".
func (n *Node) NodeAt(addr string) string {
	for _, m := range n.View().Members {
		if m.Raft == addr {
			return m.ID
		}
	}
	return ""
}

// Status counts.
func (n *Node) Status() topology.Status {
	if !n.begun() {
		return topology.Status{Mode: n.mode()}
	}
	s := topology.Status{
		Mode:       n.mode(),
		Last:       n.raft.LastIndex(),
		Committed:  n.raft.CommitIndex(),
		Applied:    n.raft.AppliedIndex(),
		LogTime:    n.clock.Now(),
		Entries:    n.leaderships.submitted.entries.Load(),
		Changes:    n.leaderships.submitted.bytes.Load(),
		Rollbacks:  n.leaderships.rollbacks.Load(),
		Snapshot:   n.fsm.snapshotIndex.Load(),
		RoundTrips: n.trips.status(),
		Heartbeat:  n.shownHeartbeat(),
		Settled:    n.config.Peers == nil || n.pulse.known().settled(),
	}
	l := n.leaderships.current()
	if n.config.Async && n.config.Peers != nil && (l == nil || !l.lease.offered.Load()) {
		s.MayLose = n.lease()
	}
	s.Behind = time.Duration(n.config.Wall().UnixNano() - int64(s.LogTime))
	if l != nil {
		s.Waiting, s.Unflushed = l.pipeline.oldest(n.clock.monotonic())
		s.Followers = n.followers(l.term)
	} else if last := n.raft.LastContact(); !last.IsZero() {
		s.Contact = time.Since(last)
	}
	return s
}

// shownHeartbeat returns the heartbeat of the cluster, or that of this node until there is one.
func (n *Node) shownHeartbeat() time.Duration {
	if h := n.pulse.known(); h.Version > 0 {
		return h.Now
	}
	return n.heartbeat()
}

func (n *Node) mode() string {
	if n.config.Async {
		return "async"
	}
	return "sync"
}

// Fingerprint says what state the node is in. Nothing is applied meanwhile, so that what it
// says is of one moment: some 50 ms for each million keys.
func (n *Node) Fingerprint() topology.Fingerprint {
	n.mu.Lock()
	defer n.mu.Unlock()
	f := topology.Fingerprint{Index: n.fsm.appliedIndex, LogTime: n.clock.standing()}
	f.Sum, f.Keys = n.table.Hash(f.LogTime)
	return f
}

func (n *Node) find(id string) *topology.Member { return n.View().Find(id) }

func (n *Node) voters() (list []topology.Member) {
	for _, m := range n.View().Members {
		if m.Voter {
			list = append(list, m)
		}
	}
	return list
}

// others returns the voters but this node.
func (n *Node) others() []topology.Member {
	return slices.DeleteFunc(n.voters(), func(m topology.Member) bool { return m.ID == n.config.Self.ID })
}
