package server

import (
	"net"
	"strings"

	"github.com/throttledhq/throttled/options"
)

// face is what a client gets to see of the server, which depends on the port that it has
// come to. All that differs between them is said here and by the faces of the rows in the
// command table.
type face struct {
	set  faceSet // the face itself
	mode string  // what HELLO and INFO say that this server is
	port func(o *options.Options) int

	elsewhere  elsewhere  // what becomes of a command that only the leader can run
	notLeading replyError // the answer where nobody runs it
	database   replyError // the answer to SELECT of any database but 0

	trusted bool // whoever connects is a node of the cluster, and has shown it
	yields  bool // clients are closed when this node has stopped leading
	noRole  bool // HELLO says nothing of a role
}

// elsewhere is a way to treat commands that only the leader can run, on a node that is not.
type elsewhere uint8

const (
	forwards  elsewhere = iota // the leader is asked, and what it says is passed on
	redirects                  // the client is told where to ask, if the command has a key
	refuses
)

// faceSet is a set of faces.
type faceSet uint8

const (
	onRedis    faceSet = 1 << iota // the port for all clients
	onCluster                      // for clients of Redis Cluster
	onSentinel                     // for clients of Redis Sentinel
	onPeers                        // for the other nodes, which pass on what their clients ask

	onData = onRedis | onCluster | onPeers
	onAll  = onData | onSentinel
)

// The faces. That of peers refuses what it cannot do itself: so a command is passed on once
// at the most.
var (
	redisFace = face{
		set: onRedis, mode: "standalone", port: func(o *options.Options) int { return o.Port },
		elsewhere: forwards, notLeading: errNotLeading, database: errDBIndex,
	}
	clusterFace = face{
		set: onCluster, mode: "cluster", port: func(o *options.Options) int { return o.ClusterPort },
		elsewhere: redirects, notLeading: errClusterDown, database: errSelectCluster,
	}
	// What a Sentinel has sent here asks it again when it is closed.
	leaderFace = face{
		set: onRedis, mode: "standalone", port: func(o *options.Options) int { return o.LeaderPort },
		elsewhere: forwards, notLeading: errNotLeading, database: errDBIndex, yields: true,
	}
	sentinelFace = face{
		set: onSentinel, mode: "sentinel", port: func(o *options.Options) int { return o.SentinelPort },
		elsewhere: refuses, notLeading: errNotLeading, noRole: true,
	}
	peerFace = face{
		set: onPeers, mode: "standalone", port: func(o *options.Options) int { return o.Port },
		elsewhere: refuses, notLeading: errPeerNotLeading, database: errDBIndex, trusted: true,
	}
)

// faces returns those that the server has: one that is a node of no cluster has nothing to show
// to the others.
func (s *Server) faces() []*face {
	if s.cluster == nil {
		return []*face{&redisFace}
	}
	return []*face{&redisFace, &clusterFace, &sentinelFace, &peerFace}
}

// Serve accepts connections of Redis clients from ln until Shutdown, and then returns
// ErrServerClosed. It closes ln. It returns another error only when somebody else closes ln.
func (s *Server) Serve(ln net.Listener) error { return s.serve(ln, &redisFace) }

// ServeCluster is Serve for clients of Redis Cluster: they are shown a cluster in which the
// leader has all slots, and are sent there. The Config has to hold a Cluster.
func (s *Server) ServeCluster(ln net.Listener) error { return s.serve(ln, &clusterFace) }

// ServeLeader is Serve for clients to which a Redis Sentinel has named this node as the leader. They are closed when
// it stops leading, so that they ask again. The Config has to hold a Cluster.
func (s *Server) ServeLeader(ln net.Listener) error { return s.serve(ln, &leaderFace) }

// ServeSentinel is Serve for clients that ask a Redis Sentinel where the leader is. The
// Config has to hold a Cluster.
func (s *Server) ServeSentinel(ln net.Listener) error { return s.serve(ln, &sentinelFace) }

// ServePeers is Serve for streams of other nodes, which have been authenticated: they need no
// password, do not count as clients, may be idle for as long as they like, and get what other
// nodes' clients ask for, if this node leads. The Config has to hold a Cluster.
func (s *Server) ServePeers(ln net.Listener) error { return s.serve(ln, &peerFace) }

// sentinelToo are the commands, or containers of them, that a Sentinel has besides SENTINEL.
const sentinelToo = " auth client command hello info ping psubscribe punsubscribe quit reset shutdown subscribe unsubscribe "

// facesOf returns where a command exists: as its row says, or else on all that show keys, and
// where Sentinel has it too.
func facesOf(cmd *command) faceSet {
	if cmd.faces != 0 {
		return cmd.faces
	}
	name, _, _ := strings.Cut(cmd.name, "|")
	if strings.Contains(sentinelToo, " "+name+" ") {
		return onAll
	}
	return onData
}
