// Package statistics defines the statistics that a server publishes for metrics. They are values: a copy at one time,
// with the names of the server's own commands and errors, and without names or keys of clients.
package statistics

import (
	"time"

	"github.com/throttledhq/throttled/internal/histogram"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/topology"
)

// Server is the statistics of a server. CONFIG RESETSTAT sets the counters to 0, except those in Usage.
type Server struct {
	Started time.Time // time at which the server was created
	Loading bool      // the state is still being loaded

	Clients    int // open connections of clients
	MaxClients int // that the server accepts
	Peers      int // open streams of other nodes

	Connections      int64  // accepted
	Rejected         int64  // connections refused after accept
	Displaced        int64  // connections closed to make room for others, before their first command
	EvictedClients   int64  // connections closed because of maxmemory-clients
	TimedOut         int64  // connections closed because of a timeout
	Users            int    // number of users
	UsersVersion     uint64 // of the users, as INFO shows it
	Overloaded       int64  // limiter commands refused because of overload-target
	Waiting          int64  // clients with unread commands; 0 without overload-target
	ProtocolErrors   int64
	Panics           int64 // of commands
	ReadBytes        int64 // received from clients
	WrittenBytes     int64 // sent to clients
	AuthFailed       int64 // authentications with a wrong user or password
	AuthRefused      int64 // authentications beyond auth-failures-per-minute
	ClientMemory     int64 // bytes held for clients
	ClientMemoryMax  int64 // bytes; 0 means no limit
	MaxMemory        int64 // bytes for keys; 0 means no limit
	SnapshotFailed   bool  // the last snapshot could not be written
	SnapshotTime     time.Time
	SnapshotsEnabled bool // false if the state has no snapshots of its own

	Commands []Command        // commands that were called or refused
	Errors   map[string]int64 // error replies by code
	Forward  Forward
	Rules    Rules
	Usage    limiter.Usage
	TLS      TLS
	Upstream Upstream
}

// Upstream is the statistics of the upstream of a sidecar.
type Upstream struct {
	Used     bool          // the server is a sidecar
	Answers  bool          // an address is in use
	Silence  time.Duration // time since the last answer to a probe, or since the start
	Connects uint64        // number of times that an address was selected; CONFIG RESETSTAT does not change it
	Failures uint64        // failed attempts to connect; CONFIG RESETSTAT does not change it
	Open     int64         // limiter commands admitted by upstream-away or on_failure
	Closed   int64         // limiter commands refused by them
	Local    int64         // limiter commands admitted with the share of the sidecar
	// LocalRefused is the number of limiter commands that exceed the share.
	LocalRefused int64
	Lessee       topology.Lessee
}

// TLS is the statistics of handshakes. CONFIG RESETSTAT does not change them.
type TLS struct {
	Used      bool // the server has ports for TLS
	Completed int64
	Failed    int64 // for other reasons than those below
	TimedOut  int64 // not completed in time
	Displaced int64 // aborted because there were too many
	Pending   int   // in progress
}

// Command is the statistics of one command.
type Command struct {
	Name     string
	Limiter  bool  // Admitted and Limited are counted
	Rules    bool  // the command uses the rules
	Calls    int64 // runs, and calls that were forwarded
	Rejected int64 // refused before running
	Failed   int64 // failed while running
	Admitted int64 // decided by this node and admitted
	Limited  int64 // decided by this node and limited
	Times    histogram.Counts
}

// Forward is the statistics of the commands that were sent to the leader.
type Forward struct {
	Answered  int64 // answered by the leader
	Uncertain int64 // commands that may have been run
	Failed    int64 // given up without a reply, because no leader was reached
	Retries   int64
}

// Rules is the statistics of CL.CHECK, without requests that charge nothing. A request is in several of the counters if
// several apply.
type Rules struct {
	Unmatched     int64 // neither a live limit nor a default applied
	Soft          int64 // admitted within a soft share
	Banned        int64 // refused by a ban
	Bans          int64 // bans that have begun
	ShadowLimited int64 // a shadow limit would have refused the request
	ShadowErrors  int64 // a shadow limit was not decided
	FailOpen      int64 // admitted by on_failure
	FailClosed    int64 // refused by on_failure
	Local         int64 // decided by this node, because of on_failure
}
