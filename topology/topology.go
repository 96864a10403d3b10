// Package topology says who is in a cluster: which nodes there are, at which addresses, and
// which of them leads.
//
// A [View] is what one node knows at one moment; a newer one replaces it, and nothing in it
// changes. Package cluster makes views, and the faces show them to clients.
package topology

import (
	"context"
	"errors"
	"net"
	"time"
)

// Member is one node of a cluster.
type Member struct {
	ID    string
	Raft  string // host:port at which other nodes reach it
	Voter bool   // it has a vote; a node that has joined gets one when it has caught up

	// What the node has announced about itself; Host is empty until then.
	Host         string // under which clients reach it
	Port         int    // of the Redis protocol; likewise the others, 0 where it does not listen
	ClusterPort  int
	SentinelPort int
	LeaderPort   int // at which its clients are closed when it stops leading
}

// NamedPort returns the port that a Sentinel names for the member: LeaderPort, or Port where there is none.
func (m *Member) NamedPort() int {
	if m.LeaderPort != 0 {
		return m.LeaderPort
	}
	return m.Port
}

// View is a cluster as one node sees it.
type View struct {
	Cluster string // the id of the cluster
	Self    string // the id of this node
	Leader  string // the id of the node that leads, empty while none is known
	Leading bool   // this node decides
	Term    uint64 // of Raft
	Members []Member
	// Changed is closed when there is a newer view.
	Changed <-chan struct{}
}

// Find returns the member with an id, or nil.
func (v *View) Find(id string) *Member {
	for i := range v.Members {
		if v.Members[i].ID == id {
			return &v.Members[i]
		}
	}
	return nil
}

// Status is what a node counts about its replication.
type Status struct {
	Mode      string        // "sync" or "async"
	Last      uint64        // the index of the newest entry in its log
	Committed uint64        // of the newest entry that most voters have
	Applied   uint64        // of the newest entry that is in its table
	LogTime   uint64        // the limiter time of that entry in nanoseconds
	Behind    time.Duration // how far the limiter time is behind the wall clock; negative: ahead
	Waiting   int           // generations that are on their way through the log
	// Unflushed is how long the oldest of them has been waiting: in async mode, what was
	// admitted in that time can be lost.
	Unflushed time.Duration
	Entries   uint64        // replicated by this node since it started
	Changes   uint64        // bytes of changes in them
	Rollbacks uint64        // times that it took back what was not committed
	Snapshot  uint64        // index of its newest snapshot
	Heartbeat time.Duration // of the cluster: silence of the leader after which another is elected
	Settled   bool          // all voters run with that heartbeat
	MayLose   time.Duration // what was admitted for so long can be lost with the leader; 0 in sync mode
	Contact   time.Duration // since it heard from the leader; 0 on the leader itself
	// RoundTrips are those of the heartbeats that this node has sent as the leader since it started.
	RoundTrips RoundTrips
	// Followers are the other members, on the node that leads: only that one knows. nil elsewhere.
	Followers []Follower
}

// Follower returns what is known of a member, or nil.
func (s *Status) Follower(id string) *Follower {
	for i := range s.Followers {
		if s.Followers[i].ID == id {
			return &s.Followers[i]
		}
	}
	return nil
}

// RoundTrips counts the heartbeats of a leader that were answered.
type RoundTrips struct {
	Answered uint64
	Slow     uint64        // of those, took longer than half of the heartbeat
	Longest  time.Duration // of all round trips
}

// Follower is what the node that leads knows of another member by what that has answered. A member
// that comes back may hold entries at the end of its log that it has yet to give up: Last counts them.
type Follower struct {
	ID      string
	Answers bool          // in this term, and at present
	Last    uint64        // the index of the newest entry in its log, when it answered last; 0: not in this term
	Silent  time.Duration // since then; 0: not in this term
}

// Fingerprint says what state a node is in: nodes with the same Index have the same Sum.
type Fingerprint struct {
	Index   uint64 // of the newest entry applied
	LogTime uint64
	Keys    int64  // live at that time
	Sum     uint64 // over them
}

// The errors of administration, wrapped with what was being done.
var (
	ErrNoLeader = errors.New("no node leads the cluster at present")
	ErrChanging = errors.New("another change of the cluster is in progress")
	ErrUnknown  = errors.New("the cluster has no such node")
	ErrMember   = errors.New("the cluster has that node already")
	ErrRefused  = errors.New("the cluster would lose its majority")
	ErrSilent   = errors.New("the node that is to lead does not answer")
)

// The errors of changing the heartbeat.
var (
	ErrHeartbeat   = errors.New("a heartbeat is 100 to 5000 ms")
	ErrNoHeartbeat = errors.New("the cluster has no heartbeat yet: not all voters have answered since it began; try again once they do")
)

// Cluster is a cluster as the faces of one of its nodes use it.
type Cluster interface {
	// View returns what is known at present.
	View() *View
	Status() Status
	Fingerprint() Fingerprint
	// Flush waits until all that this node has decided before is committed, in async mode too. The
	// error is limiter.ErrUncertain or limiter.ErrNotLeading if it stops leading before that.
	Flush() error
	// Hold keeps this node deciding until Release, and reports whether it decides: leadership is handed over only when
	// no command is half done. Calls may be nested.
	Hold() bool
	Release()
	// Dial opens a stream to a node, which serves it as a client that has shown the password,
	// and answers what only the leader can with limiter.ErrNotLeading if it does not lead: so
	// a command is forwarded once at the most.
	Dial(ctx context.Context, id string) (net.Conn, error)
	// Add lets a node join that is not yet a member, without a vote until it has caught up.
	// Like the two below it works on the leader only, and waits until the change is committed.
	Add(ctx context.Context, id, raftAddr string) error
	// Remove takes a node out. It is refused for a node without which the others that are alive would be
	// no majority.
	Remove(ctx context.Context, id string) error
	// SetHeartbeat changes the heartbeat of the cluster to whole milliseconds from 100 to 5000.
	SetHeartbeat(ctx context.Context, d time.Duration) error
	// Transfer hands leadership to a voter, or to the one that is furthest if id is empty.
	Transfer(ctx context.Context, id string) error
}
