// Package topology describes the members of a cluster: its nodes, their addresses, and the
// leader.
//
// A [View] is the state of the cluster as known to one node at one time. It is immutable; each change produces a new
// View. Package cluster makes views, and the servers show them to clients.
//
// [CheckName] defines the valid names of nodes and clusters.
package topology

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"time"
)

// Member is one node of a cluster.
type Member struct {
	ID    string
	Raft  string // host:port at which other nodes reach this node
	Voter bool   // the node has a vote; a joining node becomes a voter once it has caught up

	// The node itself announces the fields below. Until it has done so, Host is empty.
	Host         string // host at which clients reach the node
	Port         int    // port for all clients; this port, and each below, is 0 if the node does not listen on it
	ClusterPort  int    // port for clients of Redis Cluster
	SentinelPort int    // port for clients of Redis Sentinel
	LeaderPort   int    // connections to this port are closed when the node loses leadership
	TLS          Ports  // ports for clients with TLS
}

// Ports are the ports of a member for clients with TLS, or for clients without. A port is 0 if the member does not have it.
type Ports struct {
	Redis    int `json:"port,omitempty"`
	Cluster  int `json:"cluster_port,omitempty"`
	Sentinel int `json:"sentinel_port,omitempty"`
	Leader   int `json:"leader_port,omitempty"`
}

// Ports returns the ports of the member that are reported to clients with TLS (secure is true) or without. If the member does
// not have such a port, the port is the one for other clients, which the client cannot use unless it is configured to do so.
// Leader is the port in replies of Sentinel: that for clients of all kinds if there is no port for clients of the leader.
func (m *Member) Ports(secure bool) Ports {
	own, other := Ports{m.Port, m.ClusterPort, m.SentinelPort, m.LeaderPort}, m.TLS
	if secure {
		own, other = other, own
	}
	return Ports{
		Redis: cmp.Or(own.Redis, other.Redis), Cluster: cmp.Or(own.Cluster, other.Cluster), Sentinel: cmp.Or(own.Sentinel, other.Sentinel),
		Leader: cmp.Or(own.Leader, own.Redis, other.Leader, other.Redis),
	}
}

// View is the cluster as seen by one node.
type View struct {
	Cluster string // the id of the cluster
	Self    string // the id of this node
	Leader  string // the id of the leader, empty if none is known
	Leading bool   // this node is the leader and decides
	Term    uint64 // term of Raft
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
	Last      uint64        // index of the newest entry in the log of the node
	Committed uint64        // index of the newest entry that a majority of the voters has
	Applied   uint64        // index of the newest entry that is applied to the table of the node
	LogTime   uint64        // limiter time in ns: on the leader the running clock, on other nodes the time of the newest applied entry
	Behind    time.Duration // how far the limiter time is behind the wall clock; negative if it is ahead
	Waiting   int           // number of submitted generations (groups of decisions in one entry) that are not committed
	// Unflushed is the age of the oldest uncommitted generation. In async mode, the requests that the leader has
	// admitted within this time would be lost if the leader failed now.
	Unflushed time.Duration
	Entries   uint64        // entries that this node has replicated since it started
	Changes   uint64        // bytes of changes in these entries
	Rollbacks uint64        // number of times that this node has rolled back uncommitted changes
	Snapshot  uint64        // index of the newest snapshot of the node
	Heartbeat time.Duration // followers start an election after this time without contact with the leader
	Settled   bool          // all voters run with this heartbeat
	MayLose   time.Duration // requests admitted within this time before the leader fails may be lost; 0 in sync mode
	Contact   time.Duration // time since the last message from the leader; 0 on the leader itself
	// RoundTrips counts the answered heartbeat messages that this node has sent as the leader since it started.
	RoundTrips RoundTrips
	// Followers holds the progress of the other members. It is nil on nodes other than the leader.
	Followers []Follower
}

// Follower returns the progress of the member with the given id, or nil.
func (s *Status) Follower(id string) *Follower {
	for i := range s.Followers {
		if s.Followers[i].ID == id {
			return &s.Followers[i]
		}
	}
	return nil
}

// RoundTrips counts the heartbeat messages of a leader that were answered.
type RoundTrips struct {
	Answered uint64
	Slow     uint64        // answered after more than half of Status.Heartbeat
	Longest  time.Duration // longest time from a message to its answer
}

// Follower is the progress of another member, as known to the leader from the answers of that member. After a restart,
// the last entries in the log of a member may be uncommitted entries that the member will discard. Last includes these
// entries.
type Follower struct {
	ID      string
	Answers bool          // the member has answered in this term, and still answers
	Last    uint64        // index of its newest log entry, from its last answer; 0 if it has not answered in this term
	Silent  time.Duration // time since its last answer; 0 if it has not answered in this term
}

// Fingerprint identifies the state of a node: nodes with the same Index have the same Sum.
type Fingerprint struct {
	Index   uint64 // index of the newest applied entry
	LogTime uint64 // limiter time of that entry, in nanoseconds
	Keys    int64  // number of keys that are live at LogTime
	Sum     uint64 // checksum of these keys
}

// Errors of administrative operations. The operations wrap them in errors that name the failed operation.
var (
	ErrNoLeader = errors.New("no node leads the cluster at present")
	ErrChanging = errors.New("another change of the cluster is in progress")
	ErrUnknown  = errors.New("the cluster has no such node")
	ErrMember   = errors.New("the cluster already has that node")
	ErrRefused  = errors.New("the cluster would lose its majority")
	ErrSilent   = errors.New("the node chosen as the next leader does not respond")
	// ErrOutcome means that the change may be made, or may have been made already.
	ErrOutcome = errors.New("the outcome is unknown, see CL.CLUSTER NODES and CL.CLUSTER STATUS")
)

// ConnRefusedError is the error of a connection that a node has refused with a reply, for example because it has too many clients.
type ConnRefusedError struct {
	Node string // id of the node
	Err  error  // contains the reply
}

func (e *ConnRefusedError) Error() string { return "the connection was refused: " + e.Err.Error() }

// Unwrap returns the error with the reply.
func (e *ConnRefusedError) Unwrap() error { return e.Err }

// refusals are the beginnings of the error replies with which a node refuses a connection. It sends them instead of the first
// reply.
var refusals = []string{"ERR max number of clients", "DENIED ", "NOAUTH "}

// RefusesConn reports whether a node that replies to the first command of a connection with an error, which is given without
// its type byte, refuses the connection and not only the command.
func RefusesConn(text string) bool {
	return slices.ContainsFunc(refusals, func(begin string) bool { return strings.HasPrefix(text, begin) })
}

// Errors returned when the heartbeat is changed.
var (
	ErrHeartbeat   = errors.New("a heartbeat must be 100 to 5000 ms")
	ErrNoHeartbeat = errors.New("the cluster has no heartbeat yet, because some voters have not responded; try again when all voters respond")
)

// ErrNoRules is returned if the first rules of a cluster cannot be set.
var ErrNoRules = errors.New("all members must be running and support rules; start or remove the others, or replace their program")

// ErrUnchanged is returned if a change of the rules or the users was not written to the log.
var ErrUnchanged = errors.New("nothing was changed; repeat the change")

// Errors returned if the users of a cluster cannot be changed.
var (
	ErrNoUsers      = errors.New("all members must be running and support users; start or remove the others, or replace their program")
	ErrUsersChanged = errors.New("the users were changed meanwhile, nothing was changed; try again")
	ErrUsersUnknown = errors.New("leadership was lost before the change was confirmed, it may have been made; see ACL LIST")
)

// Cluster is the interface through which the servers of a node use its cluster.
type Cluster interface {
	// View returns the current view.
	View() *View
	// Status returns the current replication counters of this node.
	Status() Status
	// Fingerprint returns the fingerprint of the applied state of this node.
	Fingerprint() Fingerprint
	// Flush blocks until all earlier decisions of this node are committed, even in async mode. It returns
	// limiter.ErrUncertain or limiter.ErrNotLeading if the node loses leadership first.
	Flush() error
	// Hold prevents a transfer of leadership until Release is called, so that the transfer does not interrupt a
	// command. Hold returns false, and prevents nothing, if this node does not decide. Calls may be nested.
	Hold() bool
	// Release permits the transfer of leadership again. It must be called once for each Hold that returned true.
	Release()
	// Dial opens a stream to the node with the given id. That node serves the stream like the connection of an
	// authenticated client. If the node is not the leader, it does not forward commands that need the leader, but
	// replies with an error. Thus a command is forwarded at most once.
	Dial(ctx context.Context, id string) (net.Conn, error)
	// Add adds the node with the given id and Raft address, which must not be a member yet. The node has no vote
	// until it has caught up. Like Remove and SetHeartbeat, Add works only on the leader, and blocks until the change
	// is committed.
	Add(ctx context.Context, id, raftAddr string) error
	// Remove removes a node. It fails unless a majority of the remaining voters responds to the leader.
	Remove(ctx context.Context, id string) error
	// SetHeartbeat changes the heartbeat of the cluster to d, which must be a whole number of milliseconds from 100
	// to 5000.
	SetHeartbeat(ctx context.Context, d time.Duration) error
	// Transfer transfers leadership to the voter with the given id, or to the most up-to-date voter if id is empty.
	Transfer(ctx context.Context, id string) error
}
