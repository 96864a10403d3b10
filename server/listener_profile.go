package server

import (
	"cmp"
	"net"
	"strings"

	"github.com/throttledhq/throttled/options"
)

// listenerProfile determines how the server treats the clients of one port. Profiles differ only in these fields and in
// their rows of the command table.
type listenerProfile struct {
	set  profileSet                   // selects the rows of the command table that apply
	mode string                       // server mode in HELLO and INFO
	port func(o *options.Options) int // port without TLS, or the one with TLS if there is none

	onFollower followerPolicy // treatment of commands that need the leader, if this node is not the leader
	notLeading replyError     // reply to a command that needs the leader, if the leader did not run it
	database   replyError     // reply to SELECT of a database other than 0

	trusted          bool // clients are authenticated nodes of the cluster
	closesOnStepDown bool // clients are disconnected when this node stops being the leader
	noRole           bool // HELLO does not report a role
}

// followerPolicy determines how a node that is not the leader treats commands that need the leader.
type followerPolicy uint8

const (
	forwards  followerPolicy = iota // forward the command to the leader and relay its reply
	redirects                       // reply with MOVED if the command has a key, otherwise forward
	refuses
)

// profileSet is a set of listener profiles.
type profileSet uint8

const (
	onRedis    profileSet = 1 << iota // for all Redis clients
	onCluster                         // for clients of Redis Cluster
	onSentinel                        // for clients of Redis Sentinel
	onPeers                           // for other nodes, which forward commands of their clients

	onData = onRedis | onCluster | onPeers
	onAll  = onData | onSentinel
)

// The listener profiles. On a follower, peerListener refuses commands that need the leader, so that a command is
// forwarded at most once.
var (
	redisListener = listenerProfile{
		set: onRedis, mode: "standalone", port: func(o *options.Options) int { return cmp.Or(o.Port, o.TLSPort) },
		onFollower: forwards, notLeading: errNotLeading, database: errDBIndex,
	}
	clusterListener = listenerProfile{
		set: onCluster, mode: "cluster", port: func(o *options.Options) int { return cmp.Or(o.ClusterPort, o.TLSClusterPort) },
		onFollower: redirects, notLeading: errClusterDown, database: errSelectCluster,
	}
	// leaderListener is for clients that got the address of this node from a Sentinel. When they are disconnected, they
	// query the Sentinel again.
	leaderListener = listenerProfile{
		set: onRedis, mode: "standalone", port: func(o *options.Options) int { return cmp.Or(o.LeaderPort, o.TLSLeaderPort) },
		onFollower: forwards, notLeading: errNotLeading, database: errDBIndex, closesOnStepDown: true,
	}
	sentinelListener = listenerProfile{
		set: onSentinel, mode: "sentinel", port: func(o *options.Options) int { return cmp.Or(o.SentinelPort, o.TLSSentinelPort) },
		onFollower: refuses, notLeading: errNotLeading, noRole: true,
	}
	peerListener = listenerProfile{
		set: onPeers, mode: "standalone", port: func(o *options.Options) int { return cmp.Or(o.Port, o.TLSPort) },
		onFollower: refuses, notLeading: errPeerNotLeading, database: errDBIndex, trusted: true,
	}
)

// profiles returns one listener profile for each set of commands that the server supports. A standalone server supports
// only the commands of redisListener. leaderListener is not in the list, because it has the same commands as
// redisListener.
func (s *Server) profiles() []*listenerProfile {
	if !s.clustered() {
		return []*listenerProfile{&redisListener}
	}
	return []*listenerProfile{&redisListener, &clusterListener, &sentinelListener, &peerListener}
}

// Serve accepts connections of Redis clients from ln until Shutdown, and then returns
// ErrServerClosed. It closes ln. It returns any other error only if the caller closes ln.
func (s *Server) Serve(ln net.Listener) error { return s.serve(ln, &redisListener) }

// ServeCluster is like Serve, but for Redis Cluster clients. They see a cluster in which the leader serves all slots,
// and are redirected to the leader. Config.Cluster is required.
func (s *Server) ServeCluster(ln net.Listener) error { return s.serve(ln, &clusterListener) }

// ServeLeader is like Serve, but for clients that got the address of this node from a Redis Sentinel. They are
// disconnected when this node stops being the leader, so that they query the Sentinel again. Config.Cluster is
// required.
func (s *Server) ServeLeader(ln net.Listener) error { return s.serve(ln, &leaderListener) }

// ServeSentinel is like Serve, but for clients that query Redis Sentinel for the address of the leader. Config.Cluster
// is required.
func (s *Server) ServeSentinel(ln net.Listener) error { return s.serve(ln, &sentinelListener) }

// ServePeers is like Serve, but for authenticated streams from other nodes. These streams need no password, do not
// count as clients, and have no idle timeout. While this node is the leader, it runs the commands that other nodes
// forward. Config.Cluster is required.
func (s *Server) ServePeers(ln net.Listener) error { return s.serve(ln, &peerListener) }

// sentinelToo lists the commands and containers, other than SENTINEL, that a Sentinel supports.
const sentinelToo = " auth client command hello info ping psubscribe punsubscribe quit reset shutdown subscribe unsubscribe "

// profilesOf returns the listener profiles that support a command. If the row of the command names profiles, profilesOf
// returns these. Otherwise, it returns all profiles that serve keys, and also the profile for Sentinel if a Sentinel
// supports the command.
func profilesOf(cmd *command) profileSet {
	if cmd.profiles != 0 {
		return cmd.profiles
	}
	name, _, _ := strings.Cut(cmd.name, "|")
	if strings.Contains(sentinelToo, " "+name+" ") {
		return onAll
	}
	return onData
}
