// Package topology describes the members of a cluster: its nodes, their addresses, and the
// leader.
//
// A [View] is the state of the cluster as known to one node at one time. It is immutable; each change produces a new
// View. Package cluster makes views, and the servers show them to clients.
//
// [CheckName] defines the valid names of nodes and clusters.
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
	Voter bool   // the node has a vote; a joining node becomes a voter once it has caught up

	// The fields below are announced by the node itself; Host is empty until then.
	Host         string // host at which clients reach it
	Port         int    // of the Redis protocol; like the other ports, 0 if the node does not listen on it
	ClusterPort  int
	SentinelPort int
	LeaderPort   int // connections to this port are closed when the node loses leadership
}

// NamedPort returns the port of the member in replies of Sentinel: LeaderPort, or Port if that is 0.
func (m *Member) NamedPort() int {
	if m.LeaderPort != 0 {
		return m.LeaderPort
	}
	return m.Port
}

// View is the cluster as seen by one node.
type View struct {
	Cluster string // the id of the cluster
	Self    string // the id of this node
	Leader  string // the id of the leader, empty if none is known
	Leading bool   // this node is the leader and decides
	Term    uint64 // of Raft
	Members []Member
	// Changed is closed when there is a newer view.
	Changed <-chan struct{}
}

// Find returns the member with the given id, or nil.
func (v *View) Find(id string) *Member {
	for i := range v.Members {
		if v.Members[i].ID == id {
			return &v.Members[i]
		}
	}
	return nil
}

// Status holds the replication counters of a node.
type Status struct {
	Mode      string        // "sync" or "async"
	Last      uint64        // the index of the newest entry in its log
	Committed uint64        // of the newest entry that a majority of the voters has
	Applied   uint64        // of the newest entry that is applied to its table
	LogTime   uint64        // the limiter time in nanoseconds: of that entry on a follower, the running clock on the leader
	Behind    time.Duration // how far the limiter time is behind the wall clock; negative if it is ahead
	Waiting   int           // generations in the log that are not committed
	// Unflushed is the age of the oldest uncommitted generation. In async mode, requests admitted in that time can be
	// lost.
	Unflushed time.Duration
	Entries   uint64        // replicated by this node since it started
	Changes   uint64        // bytes of changes in them
	Rollbacks uint64        // times that it rolled back uncommitted changes
	Snapshot  uint64        // index of its newest snapshot
	Heartbeat time.Duration // of the cluster: followers start an election after this time without contact with the leader
	Settled   bool          // all voters run with that heartbeat
	MayLose   time.Duration // requests admitted in this time can be lost with the leader; 0 in sync mode
	Contact   time.Duration // since the last message from the leader; 0 on the leader itself
	// RoundTrips counts the heartbeats that this node has sent as the leader since it started.
	RoundTrips RoundTrips
	// Followers holds the other members. It is known on the leader only, and nil on other nodes.
	Followers []Follower
}

// Follower returns the status of the member with the given id, or nil.
func (s *Status) Follower(id string) *Follower {
	for i := range s.Followers {
		if s.Followers[i].ID == id {
			return &s.Followers[i]
		}
	}
	return nil
}

// RoundTrips counts the answered heartbeats of a leader.
type RoundTrips struct {
	Answered uint64
	Slow     uint64        // those that took longer than half of the heartbeat
	Longest  time.Duration // of all round trips
}

// Follower is the progress of another member, as known to the leader from the answers of that member. After a
// restart, the log of a member may end in entries that the member has yet to discard. Last includes these entries.
type Follower struct {
	ID      string
	Answers bool          // it has answered in this term, and is still answering
	Last    uint64        // index of the newest entry in its log, from its last answer; 0 if none in this term
	Silent  time.Duration // since its last answer; 0 if it has not answered in this term
}

// Fingerprint identifies the state of a node: nodes with the same Index have the same Sum.
type Fingerprint struct {
	Index   uint64 // of the newest entry applied
	LogTime uint64
	Keys    int64  // live at that time
	Sum     uint64 // over these keys
}

// Errors of administrative operations, wrapped with the operation that failed.
var (
	ErrNoLeader = errors.New("no node leads the cluster at present")
	ErrChanging = errors.New("another change of the cluster is in progress")
	ErrUnknown  = errors.New("the cluster has no such node")
	ErrMember   = errors.New("the cluster has that node already")
	ErrRefused  = errors.New("the cluster would lose its majority")
	ErrSilent   = errors.New("the node chosen as the next leader does not respond")
)

// Errors returned when the heartbeat is changed.
var (
	ErrHeartbeat   = errors.New("a heartbeat must be 100 to 5000 ms")
	ErrNoHeartbeat = errors.New("the cluster has no heartbeat yet: not all voters have responded since it was formed; try again when they have")
)

// Cluster is the interface through which the servers of a node use its cluster.
type Cluster interface {
	// View returns the current view.
	View() *View
	// Status returns the current replication counters of this node.
	Status() Status
	// Fingerprint returns the fingerprint of the applied state of this node.
	Fingerprint() Fingerprint
	// Flush blocks until everything that this node has decided before is committed, in async mode
	// too. It returns limiter.ErrUncertain or limiter.ErrNotLeading if the node loses leadership before that.
	Flush() error
	// Hold prevents the transfer of leadership until Release, so that it does not interrupt a command. It reports
	// whether this node decides. Calls may be nested.
	Hold() bool
	// Release permits the transfer of leadership again. It must be called once for each Hold that returned true.
	Release()
	// Dial opens a stream to a node, which treats the caller as an authenticated client. If that node is not the
	// leader, it returns limiter.ErrNotLeading for requests that only the leader can serve, so a command is forwarded
	// at most once.
	Dial(ctx context.Context, id string) (net.Conn, error)
	// Add adds a node that is not yet a member. The node is a non-voter until it has caught up. Like Remove and
	// SetHeartbeat, Add works only on the leader, and blocks until the change is committed.
	Add(ctx context.Context, id, raftAddr string) error
	// Remove removes a node. It fails if the live nodes that remain would not form a majority.
	Remove(ctx context.Context, id string) error
	// SetHeartbeat changes the heartbeat of the cluster to whole milliseconds from 100 to 5000.
	SetHeartbeat(ctx context.Context, d time.Duration) error
	// Transfer transfers leadership to a voter, or to the most advanced one if id is empty.
	Transfer(ctx context.Context, id string) error
}
