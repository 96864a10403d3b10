package options

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Options is the value of every setting. Each field belongs to the row of the table
// whose name it spells.
//
// An Options that a [Store] has handed out is shared and must not be changed, nor may
// the slices in it.
type Options struct {
	// Network.

	Bind          []string      // addresses to listen on: IP addresses, host names or "*" for all; at least one
	Port          int           // TCP port; 0 takes any free one
	ProtectedMode bool          // serve only loopback clients while RequirePass is empty
	RequirePass   string        // password that clients must give; empty asks for none
	TCPKeepAlive  time.Duration // whole seconds between keep-alive probes; 0 sends none
	Timeout       time.Duration // whole seconds after which an idle client is closed; 0 never closes

	// Limits.

	MaxClients             int           // connections at one time; at least 1
	ClientQueryBufferLimit int64         // bytes of one command; at least 16 KiB
	ProtoMaxBulkLen        int64         // bytes of one argument; 1 KiB to 512 MiB, at most ClientQueryBufferLimit
	ProtoMaxInlineLen      int64         // bytes of an inline command; 1 KiB to 1 MiB, at most ClientQueryBufferLimit
	ProtoMaxArgs           int           // arguments of one command, its name included; at least 1
	CommandTimeout         time.Duration // whole seconds to complete a command that has begun, and to authenticate; 0 waits for ever
	WriteTimeout           time.Duration // whole seconds that a full reply buffer may stand unread; 0 waits for ever
	ClientReplyBufferLimit int64         // bytes of replies that wait for one client before no more is read from it; at least 64 KiB
	AuthFailuresPerMinute  int           // wrong passwords that an address may give within a minute; 0 sets no limit
	ShutdownTimeout        time.Duration // whole seconds that clients get to finish at shutdown; 0 closes at once
	WindowLogMaxEntries    int           // admitted requests that the log of one CL.WINDOW ... LOG key holds; 1 to 65536

	// Memory.

	MaxMemory       int64  // bytes for keys; 0 sets no limit
	MaxMemoryPolicy string // what gives way at the limit: new keys ("noeviction"), or those that limit least ("evict-smallest-debt")

	// MaxMemoryClients is the memory of all clients together, in bytes; if negative, as a percentage
	// of MaxMemory. 0 sets no limit. See ClientMemory.
	MaxMemoryClients int64

	// Snapshots.

	Dir              string      // working directory of the process
	DBFilename       string      // name of the snapshot in Dir; no path
	Save             []SavePoint // when to write a snapshot: as soon as one of them is reached; none means never
	SnapshotFallback bool        // load the previous snapshot when the latest is damaged or missing

	// Replication. With a DataDir the state is a replicated log; with a ClusterID too, a cluster's.

	DataDir        string        // directory of the log; empty keeps the state in memory only
	Replication    string        // "sync": replies wait until most nodes have what they tell; or "async"
	RaftFsync      bool          // entries of the log are on disk before they count
	RaftHeartbeat  time.Duration // whole milliseconds, 100 to 5000: silence after which followers elect another leader
	ClusterID      string        // name of the cluster; empty for a server by itself
	NodeID         string        // name of this node; unique in the cluster for ever
	RaftAddr       string        // host:port to listen on for other nodes
	RaftAdvertise  string        // host:port under which they reach it; empty means RaftAddr
	Bootstrap      []Node        // all nodes of a cluster that begins; ignored once there is a log
	Join           []string      // host:port of nodes to join through; ignored once there is a log
	RaftTLSCert    string        // file of this node's certificate
	RaftTLSKey     string        // file of its key
	RaftTLSCA      string        // file of the certificate that signs those of all nodes
	RaftTLSRevoked string        // file of the serial numbers of revoked certificates; empty means none
	RaftInsecure   bool          // nodes do not authenticate; loopback only
	AnnounceHost   string        // host under which clients reach this node; empty means that of RaftAdvertise
	ClusterPort    int           // port for clients of Redis Cluster; 0 means none, and without ClusterID there is none
	SentinelPort   int           // likewise for clients of Redis Sentinel
	SentinelMaster string        // name of the cluster on that port
	LeaderPort     int           // port that it names for the leader; 0 means Port. See ServedLeaderPort

	// Log and diagnostics.

	LogLevel                string        // "debug", "verbose", "notice" or "warning"
	LogFile                 string        // file that the log is appended to; empty means standard error
	SlowlogLogSlowerThan    time.Duration // whole microseconds from which a command is logged as slow; 0 logs all, below 0 none
	SlowlogMaxLen           int           // slow commands that are remembered; 0 remembers none
	LatencyMonitorThreshold time.Duration // whole milliseconds from which an event is sampled; 0 samples none

	// Compatibility: what clients ask for and only one answer is true of.

	Databases               int  // always 1
	AppendOnly              bool // always false
	ReplicaReadOnly         bool // always true
	StopWritesOnBgsaveError bool // always false
}

// Node is a node of a cluster that begins.
type Node struct {
	ID   string
	Addr string // host:port
}

// SavePoint is reached when After has passed since the last snapshot and at least Changes
// have been made since.
type SavePoint struct {
	After   time.Duration // whole seconds, at least 1
	Changes int64         // 0 to 2147483647
}

// Sizes in bytes.
const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// Default returns the settings of a server that was told nothing.
func Default() Options {
	return Options{
		Bind:          []string{"127.0.0.1"},
		Port:          6380,
		ProtectedMode: true,
		TCPKeepAlive:  60 * time.Second,

		MaxClients:             10000,
		ClientQueryBufferLimit: 1 * mib,
		ProtoMaxBulkLen:        512 * kib,
		ProtoMaxInlineLen:      64 * kib,
		ProtoMaxArgs:           1024,
		CommandTimeout:         10 * time.Second,
		WriteTimeout:           10 * time.Second,
		ClientReplyBufferLimit: 64 * mib,
		AuthFailuresPerMinute:  20,
		ShutdownTimeout:        10 * time.Second,
		WindowLogMaxEntries:    8192,

		MaxMemoryPolicy:  "noeviction",
		MaxMemoryClients: 256 * mib,

		Dir:        ".",
		DBFilename: "dump.thr",

		Replication:    "sync",
		RaftFsync:      true,
		RaftHeartbeat:  250 * time.Millisecond,
		ClusterPort:    6384,
		SentinelPort:   26380,
		SentinelMaster: "mymaster",
		LeaderPort:     6386,

		LogLevel:             "notice",
		SlowlogLogSlowerThan: 10 * time.Millisecond,
		SlowlogMaxLen:        128,

		Databases:       1,
		ReplicaReadOnly: true,
	}
}

// leastClientMemory is the least that all clients may take, as in Redis.
const leastClientMemory = 128 * kib

// ClientMemory returns the bytes that all clients together may make the server hold: what
// MaxMemoryClients means, at least 128 KiB. 0 means no limit, as does a percentage without MaxMemory.
func (o *Options) ClientMemory() int64 {
	limit := o.MaxMemoryClients
	if limit < 0 {
		limit = o.MaxMemory / 100 * -limit
	}
	if limit == 0 {
		return 0
	}
	return max(limit, leastClientMemory)
}

// Validate reports the first value that is outside what its option accepts, or else
// the first two that do not go together.
func (o *Options) Validate() error {
	for i := range table {
		r, scratch := &table[i], *o
		if v := r.field(&scratch); v.Set(r.get(o)) != nil {
			return fmt.Errorf("%s %s: must be %s", r.name, quote(r.public(o)), v.want())
		}
	}
	if c := o.conflict(); c != nil {
		return errors.New(c.reason)
	}
	return nil
}

// conflict says that the values of two options, each legal by itself, do not go together.
type conflict struct {
	names  [2]string
	reason string
}

// conflict returns the first conflict there is, or nil.
func (o *Options) conflict() *conflict {
	const limit = "client-query-buffer-limit"
	switch {
	case o.ProtoMaxBulkLen > o.ClientQueryBufferLimit:
		return exceeds("proto-max-bulk-len", limit)
	case o.ProtoMaxInlineLen > o.ClientQueryBufferLimit:
		return exceeds("proto-max-inline-len", limit)
	}
	return nil
}

// CheckReplication says what the options of the group Replication lack to work together. None
// of them can change while a server runs, so it is asked once, at the start.
func (o *Options) CheckReplication() error {
	inCluster, named := o.ClusterID != "", o.RaftTLSCert != "" && o.RaftTLSKey != "" && o.RaftTLSCA != ""
	switch {
	case o.DataDir != "" && len(o.Save) > 0:
		return errors.New("with data-dir there is nothing to save: the state is in its log")
	case !inCluster && (o.RaftAddr != "" || len(o.Bootstrap) > 0 || len(o.Join) > 0):
		return errors.New("raft-addr, bootstrap and join are for a node of a cluster, which needs cluster-id")
	case !inCluster:
		return nil
	case o.NodeID == "" || o.RaftAddr == "" || o.DataDir == "":
		return errors.New("a node of a cluster needs node-id, raft-addr and data-dir")
	case len(o.Bootstrap) > 0 && len(o.Join) > 0:
		return errors.New("bootstrap and join exclude each other: a node begins a cluster or joins one")
	case len(o.Bootstrap) > 0 && !o.bootstrapsItself():
		return errors.New("bootstrap must list this node, by its node-id, with the address where others reach it")
	case !o.RaftInsecure && !named:
		return errors.New("a node of a cluster needs raft-tls-cert, raft-tls-key and raft-tls-ca, which throttled certs makes; on loopback raft-insecure does without")
	case o.RaftInsecure && (named || o.RaftTLSRevoked != ""):
		return errors.New("raft-insecure and certificates exclude each other")
	}
	return nil
}

// AdvertisedRaft returns where other nodes reach this one.
func (o *Options) AdvertisedRaft() string {
	if o.RaftAdvertise != "" {
		return o.RaftAdvertise
	}
	return o.RaftAddr
}

// ServedLeaderPort returns the port on which this node listens for clients that a Sentinel has sent to the leader; 0 if
// there is none, as on a node without SentinelPort, where those clients use Port.
func (o *Options) ServedLeaderPort() int {
	if o.SentinelPort == 0 {
		return 0
	}
	return o.LeaderPort
}

func (o *Options) bootstrapsItself() bool {
	return slices.Contains(o.Bootstrap, Node{o.NodeID, o.AdvertisedRaft()})
}

func exceeds(name, limit string) *conflict {
	return &conflict{[2]string{name, limit}, name + " must not be greater than " + limit}
}
