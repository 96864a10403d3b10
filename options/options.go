package options

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Options holds the values of all settings. Each field corresponds to the option of the
// same name without hyphens, ignoring case.
//
// An Options returned by a [Store] is shared. Neither it nor its slices may be changed.
type Options struct {
	// Network.

	Bind          []string      // addresses to listen on: IP addresses, host names or "*" for all; at least one
	Port          int           // TCP port; 0 selects any free port, or no port if TLSPort is set
	ProtectedMode bool          // accept only loopback clients while RequirePass is empty
	RequirePass   string        // password of the user "default"; empty requires none, see Password
	ACLFile       string        // file of users; empty means none. See package acl
	TCPKeepAlive  time.Duration // whole seconds between keep-alive probes; 0 disables them
	Timeout       time.Duration // whole seconds after which an idle client is closed; 0 means never

	// RequirePassFile is the file with the password of the user "default", for which RequirePass must be empty. Empty means
	// none. The file is read when the options are loaded.
	RequirePassFile string
	filePassword    string // content of RequirePassFile

	// TLS. Each port has a counterpart for TLS; 0 means none. The ports require TLSCertFile and TLSKeyFile.

	TLSPort            int      // counterpart of Port
	TLSClusterPort     int      // counterpart of ClusterPort; unused without ClusterID
	TLSSentinelPort    int      // counterpart of SentinelPort; unused without ClusterID
	TLSLeaderPort      int      // counterpart of LeaderPort; 0 means TLSPort. See ServedTLSLeaderPort
	TLSHTTPPort        int      // counterpart of HTTPPort
	TLSGRPCPort        int      // counterpart of GRPCPort
	TLSCertFile        string   // certificate of the server, in PEM, followed by those of intermediate CAs
	TLSKeyFile         string   // key of TLSCertFile, in PEM
	TLSCACertFile      string   // certificates of the CAs of clients, in PEM; required unless TLSAuthClients is "no"
	TLSRevokedFile     string   // serial numbers of revoked client certificates; empty means none
	TLSAuthClients     string   // client certificates: "yes" (required), "optional" or "no" (not requested)
	TLSAuthClientsUser string   // "CN": the common name of a client certificate is the user of the client; "off"
	TLSProtocols       []string // accepted versions: "TLSv1.2", "TLSv1.3"; empty means both

	// Limits.

	MaxClients             int           // concurrent connections; at least 1
	ClientQueryBufferLimit int64         // bytes of one command; at least 16 KiB
	ProtoMaxBulkLen        int64         // bytes of one argument; 1 KiB to 512 MiB, at most ClientQueryBufferLimit
	ProtoMaxInlineLen      int64         // bytes of an inline command; 1 KiB to 1 MiB, at most ClientQueryBufferLimit
	ProtoMaxArgs           int           // arguments of one command, including its name; at least 1
	CommandTimeout         time.Duration // whole seconds to complete a partial command, and to log in; 0 means no limit
	OverloadTarget         time.Duration // whole milliseconds that commands may wait before limiter commands are refused, 0 to 60 s; 0 means never
	WriteTimeout           time.Duration // whole seconds that a full reply buffer may remain unread; 0 means no limit
	LeaderWait             time.Duration // whole milliseconds that a command waits while no leader is elected; 100 to 60000
	ClientReplyBufferLimit int64         // bytes of unsent replies at which reading from the client pauses; at least 64 KiB
	ClientReceiveBuffer    int64         // bytes of a client that the kernel stores until the server reads them, up to 1 GiB; 0 means the limit of the system
	AuthFailuresPerMinute  int           // failed authentications of an address per minute; 0 means no limit
	ACLLogMaxLen           int           // entries of ACL LOG, at most 1024; 0 keeps none
	ShutdownTimeout        time.Duration // whole seconds for clients to finish at shutdown; 0 closes them immediately
	WindowLogMaxEntries    int           // admitted requests in the log of one CL.WINDOW ... LOG key; 1 to 65536
	Rules                  string        // file of rules; empty means none

	// HTTP and gRPC. EdgeDomain, EdgeAttributes and TrustedProxies apply to the requests that gateways send to be
	// checked.

	HTTPPort          int            // TCP port of the HTTP server; 0 means none
	GRPCPort          int            // TCP port of the gRPC server; 0 means none
	EdgeDomain        string         // domain of the rules for check requests that name none; empty means none
	EdgeAttributes    []string       // NAME=SOURCE: further attributes of check requests
	TrustedProxies    []netip.Prefix // networks whose addresses are skipped in X-Forwarded-For and Forwarded
	ForwardedHeader   string         // header with the addresses of clients and proxies: "x-forwarded-for" or "forwarded"
	HTTPHosts         []string       // host names of the HTTP server; localhost and IP addresses are always accepted
	RateLimitHeaders  []string       // "ratelimit" and "x-ratelimit": headers of HTTP and ext_authz responses
	XRateLimitReset   string         // "delta": X-RateLimit-Reset is in seconds from now; "epoch": a Unix time
	HTTPProxyProtocol bool           // connections from TrustedProxies to HTTPPort begin with a PROXY protocol header
	GRPCNegativeHits  bool           // accept refunds in requests of Envoy's ratelimit service
	RLSHeaders        bool           // responses of Envoy's ratelimit service have headers for the client
	RLSMetadata       bool           // responses of Envoy's ratelimit service have dynamic metadata

	// Memory.

	MaxMemory       int64  // bytes for keys; 0 means no limit
	MaxMemoryPolicy string // "noeviction" refuses new keys at the limit, "evict-smallest-debt" evicts the least used limits

	// MaxMemoryClients limits the total memory of all clients, in bytes. A negative value is a
	// percentage of MaxMemory. 0 means no limit. See ClientMemory.
	MaxMemoryClients int64

	// Snapshots.

	Dir              string      // working directory of the process
	DBFilename       string      // name of the snapshot in Dir, without a path
	Save             []SavePoint // a snapshot is written when one of these save points is reached; empty means never
	SnapshotFallback bool        // load the previous snapshot if the latest is damaged or missing

	// Replication. With a DataDir, the state is stored in a log on disk. With a ClusterID as well, the nodes of the
	// cluster replicate this log.

	DataDir        string        // directory of the log; empty keeps the state in memory only
	Replication    string        // "sync": replies wait until a majority has stored the state they report; "async": they do not wait
	RaftFsync      bool          // sync log entries to disk before they are acknowledged
	RaftHeartbeat  time.Duration // whole milliseconds without contact from the leader until an election; 100 to 5000
	ClusterID      string        // name of the cluster; empty for a standalone server
	NodeID         string        // name of this node; unique in the cluster and never reused
	RaftAddr       string        // host:port to listen on for other nodes
	RaftAdvertise  string        // host:port at which other nodes reach this one; empty means RaftAddr
	Bootstrap      []Node        // all nodes of a new cluster; ignored if a log exists
	Join           []string      // host:port of nodes to join through; ignored if a log exists
	RaftTLSCert    string        // certificate file of this node
	RaftTLSKey     string        // key file of this node
	RaftTLSCA      string        // file of the CA certificate that signs the certificates of all nodes
	RaftTLSRevoked string        // file of the serial numbers of revoked certificates; empty means none
	RaftInsecure   bool          // nodes do not authenticate each other; loopback only
	AnnounceHost   string        // host at which clients reach this node; empty means the host of AdvertisedRaft
	ClusterPort    int           // port for clients of Redis Cluster; 0 means none; unused without ClusterID
	SentinelPort   int           // port for clients of Redis Sentinel; 0 means none; unused without ClusterID
	SentinelMaster string        // name of the cluster on SentinelPort
	LeaderPort     int           // port of the leader in Sentinel replies; 0 means Port. See ServedLeaderPort

	// Sidecar. With an Upstream, the server stores no keys, and sends commands that need them to the upstream.

	Upstream              []string      // host:port of the upstream: a standalone server, or any nodes of a cluster; empty means none
	UpstreamUser          string        // user for the upstream; empty means "default"
	UpstreamPasswordFile  string        // file with the password of UpstreamUser; empty means that there is none
	UpstreamTLS           bool          // connect with TLS
	UpstreamTLSCACertFile string        // certificates of the CAs of the upstream, in PEM; empty means those of the system
	UpstreamTLSCertFile   string        // certificate for the upstream, in PEM; empty means none
	UpstreamTLSKeyFile    string        // key of UpstreamTLSCertFile, in PEM
	UpstreamTLSServerName string        // name in the certificate of the upstream; empty means the host of the address
	UpstreamTimeout       time.Duration // whole milliseconds to wait for a reply; at least 1
	UpstreamLeases        string        // the sidecar decides with leased units ("strict", "relaxed"), or not ("off")
	UpstreamLease         time.Duration // whole milliseconds for which units are leased at most; 20 to 1000
	UpstreamLessee        string        // name of the sidecar among the lessees of the upstream; empty means a random one
	UpstreamAway          string        // limiter commands without a reply of the upstream: "closed" (refused), "open" (admitted) or "local"
	UpstreamShare         float64       // part of each limit that UpstreamAway "local" admits; above 0, at most 1

	// Log and diagnostics.

	LogLevel                string        // "debug", "verbose", "notice" or "warning"
	LogFile                 string        // file that the log is appended to; empty means standard error
	LogFormat               string        // "text" or "json"
	SlowlogLogSlowerThan    time.Duration // whole microseconds that make a command slow; 0 logs all commands, a negative value none
	SlowlogMaxLen           int           // slow commands kept in the slow log; 0 keeps none
	LatencyMonitorThreshold time.Duration // whole milliseconds that an event must take to be sampled; 0 samples none
	MetricsMaxLimits        int           // limits of the rules with metrics of their own
	OTLPEndpoint            string        // URL to which traces are sent; empty means none
	OTLPSamplePercent       int           // percentage of the requests without a traced caller that are traced; 0 to 100

	// Compatibility: options that clients query and that have one valid value.

	Databases               int  // always 1
	AppendOnly              bool // always false
	ReplicaReadOnly         bool // always true
	StopWritesOnBgsaveError bool // always false
}

// Node is a node in the bootstrap list of a new cluster.
type Node struct {
	ID   string
	Addr string // host:port
}

// SavePoint is reached when the time After has elapsed since the last snapshot, and the state has changed at least
// as many times since then as the field Changes specifies.
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

// Default returns the default settings.
func Default() Options {
	return Options{
		Bind:          []string{"127.0.0.1"},
		Port:          6380,
		ProtectedMode: true,
		TCPKeepAlive:  60 * time.Second,

		TLSAuthClients:     "yes",
		TLSAuthClientsUser: "off",
		TLSProtocols:       []string{"TLSv1.2", "TLSv1.3"},

		MaxClients:             10000,
		ClientQueryBufferLimit: 1 * mib,
		ProtoMaxBulkLen:        512 * kib,
		ProtoMaxInlineLen:      64 * kib,
		ProtoMaxArgs:           1024,
		CommandTimeout:         10 * time.Second,
		WriteTimeout:           10 * time.Second,
		LeaderWait:             900 * time.Millisecond,
		ClientReplyBufferLimit: 64 * mib,
		ClientReceiveBuffer:    256 * kib,
		AuthFailuresPerMinute:  20,
		ACLLogMaxLen:           128,
		ShutdownTimeout:        10 * time.Second,
		WindowLogMaxEntries:    8192,

		TrustedProxies:   []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
		RateLimitHeaders: []string{"ratelimit", "x-ratelimit"},
		XRateLimitReset:  "delta",
		ForwardedHeader:  "x-forwarded-for",

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

		UpstreamTimeout: 50 * time.Millisecond,
		UpstreamLeases:  "strict",
		UpstreamLease:   time.Second,
		UpstreamAway:    "closed",
		UpstreamShare:   1,

		LogLevel:             "notice",
		LogFormat:            "text",
		SlowlogLogSlowerThan: 10 * time.Millisecond,
		SlowlogMaxLen:        128,
		MetricsMaxLimits:     1000,
		OTLPSamplePercent:    1,

		Databases:       1,
		ReplicaReadOnly: true,
	}
}

// Password returns the password of the user "default": the value of RequirePass, or the content of RequirePassFile. If it
// is empty, no password is required.
func (o *Options) Password() string {
	if o.RequirePass != "" {
		return o.RequirePass
	}
	return o.filePassword
}

// leastClientMemory is the lower bound of a limit on the memory of all clients, as in Redis.
const leastClientMemory = 128 * kib

// ClientMemory returns the limit on the memory of all clients together, in bytes: the value of
// MaxMemoryClients, but at least 128 KiB. It returns 0, which means no limit, if
// MaxMemoryClients is 0, or if it is a percentage and MaxMemory is 0.
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

// Validate returns an error for the first invalid value or, if all are valid, for the
// first conflict between two of them.
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

// conflict describes two options whose values are valid separately but not together.
type conflict struct {
	names  [2]string
	reason string
}

// conflict returns the first conflict, or nil if there is none.
func (o *Options) conflict() *conflict {
	const limit = "client-query-buffer-limit"
	switch {
	case o.ProtoMaxBulkLen > o.ClientQueryBufferLimit:
		return exceeds("proto-max-bulk-len", limit)
	case o.ProtoMaxInlineLen > o.ClientQueryBufferLimit:
		return exceeds("proto-max-inline-len", limit)
	case o.RequirePass != "" && o.RequirePassFile != "":
		return &conflict{[2]string{"requirepass", "requirepass-file"}, "requirepass and requirepass-file exclude each other"}
	}
	return nil
}

// CheckReplication returns an error if options of the group Replication are incomplete or
// exclude each other, or if save is set together with data-dir. The program calls it at startup, and [Store.Reload]
// calls it for the values that it has read.
func (o *Options) CheckReplication() error {
	inCluster, named := o.ClusterID != "", o.RaftTLSCert != "" && o.RaftTLSKey != "" && o.RaftTLSCA != ""
	switch {
	case o.DataDir != "" && len(o.Save) > 0:
		return errors.New("save and data-dir exclude each other: with data-dir the state is in the log")
	case !inCluster && (o.RaftAddr != "" || len(o.Bootstrap) > 0 || len(o.Join) > 0):
		return errors.New("raft-addr, bootstrap and join require cluster-id")
	case !inCluster:
		return nil
	case o.NodeID == "" || o.RaftAddr == "" || o.DataDir == "":
		return errors.New("cluster-id requires node-id, raft-addr and data-dir")
	case len(o.Bootstrap) > 0 && len(o.Join) > 0:
		return errors.New("bootstrap and join exclude each other: a node forms a cluster or joins one")
	case len(o.Bootstrap) > 0 && !o.bootstrapsItself():
		return errors.New("bootstrap must contain this node, with its node-id and its raft-advertise or raft-addr")
	case !o.RaftInsecure && !named:
		return errors.New("cluster-id requires raft-tls-cert, raft-tls-key and raft-tls-ca: create the files with throttled certs, or set raft-insecure if all nodes are on loopback")
	case o.RaftInsecure && (named || o.RaftTLSRevoked != ""):
		return errors.New("raft-insecure and certificates exclude each other")
	}
	return nil
}

// AdvertisedRaft returns the address at which other nodes reach this one.
func (o *Options) AdvertisedRaft() string {
	if o.RaftAdvertise != "" {
		return o.RaftAdvertise
	}
	return o.RaftAddr
}

// ServedLeaderPort returns the port on which this node listens for clients that Sentinel has
// directed to the leader. It returns 0, which means no such port, in two cases: SentinelPort
// is 0; or LeaderPort is 0, so those clients use Port.
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
