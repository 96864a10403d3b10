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

// lookEvery is the interval at which a node makes a new view without an observation of Raft.
const lookEvery = 50 * time.Millisecond

// observer makes the view of a node. A new view replaces the present one when Raft reports another leader, when the
// members or their announcements change, and when a leadership of this node begins or ends.
type observer struct {
	cluster, self string
	state         *sync.Mutex // lock of the applied state, see fsm
	raft          *raftHandle
	leaderships   *leaderships
	announced     *announcements
	setting       *heartbeatSetting
	timeout       *leaderTimeout
	now           func() time.Duration // monotonic clock
	life          *lifetime

	view       atomic.Pointer[publishedView]
	leaderSeen atomic.Int64            // time of the last observation of a leader, on the monotonic clock
	refused    atomic.Pointer[refusal] // last refusal by a leader; nil if there was none
}

// publishedView is a view and the channel that is closed when a newer one is made.
type publishedView struct {
	topology.View
	changed chan struct{}
}

// refusal records that the system of a leader has refused a connection.
type refusal struct {
	leaderTerm
	at time.Time
}

// begin makes the first view, which has no members.
func (o *observer) begin() {
	first := &publishedView{changed: make(chan struct{})}
	first.View = topology.View{Cluster: o.cluster, Self: o.self, Changed: first.changed}
	o.view.Store(first)
}

// View returns the present view.
func (o *observer) View() *topology.View { return &o.view.Load().View }

// refresh makes a new view if the present one is out of date.
func (o *observer) refresh() {
	o.state.Lock()
	defer o.state.Unlock()
	o.publish()
}

// publish is refresh with o.state held.
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

// leader returns the id of the leader, or "". A leader that has sent nothing for a heartbeat does not count, although
// Raft may detect that only after three times as long. Nor does one whose process has exited.
func (o *observer) leader() string {
	l := o.raft.leading()
	if o.raft.State() == raft.Follower && o.sinceContact() > o.setting.heartbeat() || o.hasExited(l) {
		return ""
	}
	return l.leader
}

// sinceContact returns the time since this node received a message of a leader. Raft counts the first message of a
// leader only after it is stored.
func (o *observer) sinceContact() time.Duration {
	return min(time.Since(o.raft.LastContact()), o.now()-time.Duration(o.leaderSeen.Load()))
}

// hasExited reports whether the process of a leader has exited: its system has refused a connection, and Raft has
// received nothing since, apart from messages in flight. A process that accepts connections again is a new one, which
// does not lead in that term.
func (o *observer) hasExited(l leaderTerm) bool {
	refused := o.refused.Load()
	inFlight := o.setting.heartbeat() / 10 // shortest time between two heartbeats
	return refused != nil && refused.leaderTerm == l && !o.raft.LastContact().After(refused.at.Add(inFlight))
}

// recordRefusal records that the system of a leader has refused a connection.
func (o *observer) recordRefusal(l leaderTerm) {
	o.refused.Store(&refusal{l, time.Now()})
	o.refresh()
}

// members returns the members by the newest configuration, in the order of their ids, with their announcements.
func (o *observer) members() []topology.Member {
	var list []topology.Member
	for _, s := range o.raft.servers() {
		a := o.announced.of(string(s.ID))
		list = append(list, topology.Member{
			ID: string(s.ID), Raft: string(s.Address), Voter: isVoter(s),
			Host: a.Host, Port: a.Port, ClusterPort: a.ClusterPort, SentinelPort: a.SentinelPort,
			LeaderPort: a.LeaderPort,
		})
	}
	slices.SortFunc(list, func(a, b topology.Member) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// start makes the observer follow Raft. It registers before it returns, so that it misses no observation. It makes views
// periodically, too, as observations are dropped if there are too many.
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
		o.follow(seen)
	})
}

// follow makes views until the node is closed.
func (o *observer) follow(seen <-chan raft.Observation) {
	ticker := time.NewTicker(lookEvery)
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

// observe processes an observation of Raft.
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

// await blocks until changed, the channel of a view, is closed, and returns true. It returns false if the node is closed
// first.
func (o *observer) await(changed <-chan struct{}) bool {
	select {
	case <-changed:
		return true
	case <-o.life.ended():
		return false
	}
}

// known returns the members of the present view.
func (o *observer) known() []topology.Member { return o.View().Members }

// find returns a member of the present view, or nil.
func (o *observer) find(id string) *topology.Member { return o.View().Find(id) }

// member returns a member by the newest configuration, or nil. The view can be slightly older than that.
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

// isMember reports whether a node is a member, as far as this node knows.
func (o *observer) isMember(id string) bool { return o.member(id) != nil }

// voters returns the members of a view that have a vote.
func voters(v *topology.View) (list []topology.Member) {
	for _, m := range v.Members {
		if m.Voter {
			list = append(list, m)
		}
	}
	return list
}

// otherVoters returns the voters of a view except the node itself.
func otherVoters(v *topology.View) []topology.Member {
	return slices.DeleteFunc(voters(v), func(m topology.Member) bool { return m.ID == v.Self })
}

// idAt returns the id of the member of a view at a raft address, or "".
func idAt(v *topology.View, addr string) string {
	for _, m := range v.Members {
		if m.Raft == addr {
			return m.ID
		}
	}
	return ""
}
