package cluster

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/topology"
)

// refreshEvery is the interval at which the view is refreshed without an observation from Raft.
const refreshEvery = 50 * time.Millisecond

// observer publishes views of the cluster. It publishes a new view when Raft reports a new leader, when the members or
// their announcements change, and when a leadership of this node begins or ends.
type observer struct {
	cluster, self string
	state         *sync.Mutex // guards the applied state, see fsm
	raft          *raftHandle
	leaderships   *leaderships
	announced     *announcements
	setting       *heartbeatSetting
	timeout       *leaderTimeout
	now           func() time.Duration // monotonic clock
	life          *lifetime

	view       atomic.Pointer[publishedView]
	leaderSeen atomic.Int64            // time of the last observation of a leader, on the monotonic clock
	refused    atomic.Pointer[refusal] // last connection that a leader's system refused; nil if there was none
}

// publishedView is a view and the channel that is closed when a newer view is published.
type publishedView struct {
	topology.View
	changed chan struct{}
}

// refusal records that the operating system of a leader's host has refused a connection.
type refusal struct {
	leaderTerm
	at time.Time
}

// begin stores the first view, which has no members.
func (o *observer) begin() {
	first := &publishedView{changed: make(chan struct{})}
	first.View = topology.View{Cluster: o.cluster, Self: o.self, Changed: first.changed}
	o.view.Store(first)
}

// View returns the current view.
func (o *observer) View() *topology.View { return &o.view.Load().View }

// refresh publishes a new view if the current one is out of date.
func (o *observer) refresh() {
	o.state.Lock()
	defer o.state.Unlock()
	o.publish()
}

// publish is like refresh. The caller must hold o.state.
func (o *observer) publish() {
	if !o.raft.started() {
		return
	}
	next := &publishedView{changed: make(chan struct{})}
	next.View = topology.View{
		Cluster: o.cluster,
		Self:    o.self,
		Leader:  o.leader(),
		Leading: o.leaderships.decides(),
		Term:    o.raft.CurrentTerm(),
		Members: o.members(),
		Changed: next.changed,
	}
	old := o.view.Load()
	if same(&old.View, &next.View) {
		return
	}
	o.view.Store(next)
	close(old.changed)
}

func same(a, b *topology.View) bool {
	return a.Leader == b.Leader && a.Leading == b.Leading && a.Term == b.Term && slices.Equal(a.Members, b.Members)
}

// leader returns the id of the leader, or "" if there is none. It also returns "" if the process of the leader has
// exited, or if this node has received no message from the leader for a heartbeat. Raft itself may detect missing
// messages only after three heartbeats.
func (o *observer) leader() string {
	l := o.raft.leading()
	if o.raft.State() == raft.Follower && o.sinceContact() > o.setting.heartbeat() || o.hasExited(l) {
		return ""
	}
	return l.leader
}

// sinceContact returns the time since this node received a message from a leader. sinceContact also counts the first
// message from a new leader, for which Raft updates LastContact only after the entries are stored.
func (o *observer) sinceContact() time.Duration {
	return min(time.Since(o.raft.LastContact()), o.now()-time.Duration(o.leaderSeen.Load()))
}

// hasExited reports whether the process of a leader has exited: a connection was refused, and Raft has received no
// message since, except messages that were in flight at that time. The result does not change if connections are
// accepted again, because the process is then a new one, which is not the leader in the same term.
func (o *observer) hasExited(l leaderTerm) bool {
	refused := o.refused.Load()
	inFlight := o.setting.heartbeat() / 10 // minimum time between two heartbeats; a message in flight arrives sooner
	return refused != nil && refused.leaderTerm == l && !o.raft.LastContact().After(refused.at.Add(inFlight))
}

// recordRefusal records that a connection to a leader was refused, and refreshes the view.
func (o *observer) recordRefusal(l leaderTerm) {
	o.refused.Store(&refusal{l, time.Now()})
	o.refresh()
}

// members returns the members in the newest configuration, with their announcements, sorted by id.
func (o *observer) members() []topology.Member {
	var list []topology.Member
	for _, s := range o.raft.servers() {
		a := o.announced.of(string(s.ID))
		list = append(list, topology.Member{
			ID: string(s.ID), Raft: string(s.Address), Voter: isVoter(s),
			Host: a.Host, Port: a.Port, ClusterPort: a.ClusterPort, SentinelPort: a.SentinelPort,
			LeaderPort: a.LeaderPort, TLS: a.TLS,
		})
	}
	slices.SortFunc(list, func(a, b topology.Member) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// start registers the observer with Raft, and refreshes the view on each observation. The view is also refreshed
// periodically, because Raft drops observations if there are too many.
func (o *observer) start() {
	seen := make(chan raft.Observation, 64)
	filter := raft.NewObserver(seen, false, func(s *raft.Observation) bool {
		switch s.Data.(type) {
		case raft.LeaderObservation, raft.PeerObservation, raft.RequestPreVoteRequest:
			return true
		}
		return false
	})
	o.raft.RegisterObserver(filter)
	o.life.run(func() {
		defer o.raft.DeregisterObserver(filter)
		o.run(seen)
	})
}

// run refreshes the view until the node is closed.
func (o *observer) run(seen <-chan raft.Observation) {
	ticker := time.NewTicker(refreshEvery)
	defer ticker.Stop()
	o.refresh()
	for {
		select {
		case <-o.life.ended():
			return
		case <-ticker.C:
			o.refresh()
		case s := <-seen:
			o.observe(s.Data)
		}
	}
}

// observe processes an observation from Raft.
func (o *observer) observe(seen any) {
	switch s := seen.(type) {
	case raft.RequestPreVoteRequest:
		o.timeout.checkSoon(len(voters(o.View())))
		return
	case raft.LeaderObservation:
		if s.LeaderID != "" {
			o.leaderSeen.Store(int64(o.now()))
		}
	}
	o.refresh()
}

// await blocks until changed, which is the Changed channel of a view, is closed, and returns true. It returns false
// if the node is closed first.
func (o *observer) await(changed <-chan struct{}) bool {
	select {
	case <-changed:
		return true
	case <-o.life.ended():
		return false
	}
}

// viewMembers returns the members in the current view.
func (o *observer) viewMembers() []topology.Member { return o.View().Members }

// find returns a member in the current view, or nil.
func (o *observer) find(id string) *topology.Member { return o.View().Find(id) }

// member returns a member in the newest configuration, or nil. The configuration can be slightly newer than the view.
func (o *observer) member(id string) *topology.Member {
	m := o.find(id)
	if m != nil && m.Voter || !o.raft.started() {
		return m
	}
	for _, s := range o.raft.servers() {
		if string(s.ID) == id {
			return &topology.Member{ID: id, Raft: string(s.Address), Voter: isVoter(s)}
		}
	}
	return nil
}

// isMember reports whether a node is a member in the newest configuration of this node.
func (o *observer) isMember(id string) bool { return o.member(id) != nil }

// voters returns the voters in a view.
func voters(v *topology.View) (list []topology.Member) {
	for _, m := range v.Members {
		if m.Voter {
			list = append(list, m)
		}
	}
	return list
}

// otherVoters returns the voters in a view, except the node itself.
func otherVoters(v *topology.View) []topology.Member {
	return slices.DeleteFunc(voters(v), func(m topology.Member) bool { return m.ID == v.Self })
}

// idAt returns the id of the member of a view with the raft address addr, or "" if there is none.
func idAt(v *topology.View, addr string) string {
	for _, m := range v.Members {
		if m.Raft == addr {
			return m.ID
		}
	}
	return ""
}
