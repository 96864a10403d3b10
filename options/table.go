package options

import (
	"math"
	"slices"
	"time"
)

// change specifies whether CONFIG SET may change an option.
type change uint8

const (
	live      change = iota // at any time
	immutable               // never: the value is used only at startup
	protected               // never: the value names a file or directory, which a client must not choose
	confined                // at any time, but only to a log file that checkLogFile allows
)

// The groups of options, in the order of the table.
const (
	network       = "Network"
	security      = "TLS"
	limits        = "Limits"
	edges         = "HTTP and gRPC"
	memory        = "Memory"
	snapshots     = "Snapshots"
	replication   = "Replication"
	upstream      = "Sidecar"
	diagnostics   = "Log and diagnostics"
	compatibility = "Compatibility"
)

// The forms of values in the help text. A form that ends in dots accepts several words,
// which need no quotes in a configuration file.
const (
	formAddresses = "ADDRESS ..."
	formNumber    = "N"
	formSeconds   = "SECONDS"
	formMillis    = "MSEC"
	formMicros    = "USEC"
	formBytes     = "BYTES"
	formShare     = "BYTES|N%"
	formYesNo     = "yes|no"
	formText      = "TEXT"
	formName      = "NAME"
	formPath      = "PATH"
	formAddress   = "HOST:PORT"
	formNodes     = "NODE=HOST:PORT ..."
	formSources   = "NAME=SOURCE ..."
	formNetworks  = "NETWORK ..."
	formNames     = "NAME ..."
	formSave      = "SECONDS CHANGES ..."
)

// The upper bounds of durations and counts, as in Redis.
const (
	most32 = math.MaxInt32
	most64 = math.MaxInt64
)

// table lists all options, by group.
var table = slices.Concat([]row{
	{
		name: "bind", group: network, form: formAddresses, change: immutable,
		help:  "addresses to listen on, * for all interfaces",
		field: func(o *Options) value { return addresses{&o.Bind} },
	},
	{
		name: "port", group: network, form: formNumber, change: immutable,
		help:  "TCP port, 0 for any free port (none with tls-port)",
		field: func(o *Options) value { return number{&o.Port, 0, 65535} },
	},
	{
		name: "protected-mode", group: network, form: formYesNo,
		help:  "accept only local clients if no password is set",
		field: func(o *Options) value { return boolean{&o.ProtectedMode} },
	},
	{
		name: "requirepass", group: network, form: formText, secret: true,
		help:  "password of clients, \"\" for none",
		field: func(o *Options) value { return text{&o.RequirePass} },
	},
	{
		name: "requirepass-file", group: network, form: formPath, change: protected,
		help:  "file with that password, \"\" for none",
		field: func(o *Options) value { return text{&o.RequirePassFile} },
	},
	{
		name: "aclfile", group: network, form: formPath, change: protected,
		help:  "file of users, \"\" for none",
		field: func(o *Options) value { return text{&o.ACLFile} },
	},
	{
		name: "tcp-keepalive", group: network, form: formSeconds,
		help:  "time between keep-alive probes, 0 for none",
		field: func(o *Options) value { return seconds(&o.TCPKeepAlive) },
	},
	{
		name: "timeout", group: network, form: formSeconds,
		help:  "idle time until a client is closed, 0 for no limit",
		field: func(o *Options) value { return seconds(&o.Timeout) },
	},
}, tlsRows, []row{
	{
		name: "maxclients", group: limits, form: formNumber,
		help:  "maximum number of connections",
		field: func(o *Options) value { return number{&o.MaxClients, 1, most32} },
	},
	{
		name: "client-query-buffer-limit", group: limits, form: formBytes,
		help:  "maximum length of a command",
		field: func(o *Options) value { return size{&o.ClientQueryBufferLimit, 16 * kib, 1 * gib} },
	},
	{
		name: "proto-max-bulk-len", group: limits, form: formBytes,
		help:  "maximum length of an argument",
		field: func(o *Options) value { return size{&o.ProtoMaxBulkLen, 1 * kib, 512 * mib} },
	},
	{
		name: "proto-max-inline-len", group: limits, form: formBytes,
		help:  "maximum length of an inline command",
		field: func(o *Options) value { return size{&o.ProtoMaxInlineLen, 1 * kib, 1 * mib} },
	},
	{
		name: "proto-max-args", group: limits, form: formNumber,
		help:  "maximum number of arguments of a command",
		field: func(o *Options) value { return number{&o.ProtoMaxArgs, 1, 1 << 20} },
	},
	{
		name: "command-timeout", group: limits, form: formSeconds,
		help:  "time to send a command or log in, 0 for no limit",
		field: func(o *Options) value { return seconds(&o.CommandTimeout) },
	},
	{
		name: "write-timeout", group: limits, form: formSeconds,
		help:  "time for a client to read replies, 0 for no limit",
		field: func(o *Options) value { return seconds(&o.WriteTimeout) },
	},
	{
		name: "leader-wait", group: limits, form: formMillis,
		help:  "time for which commands wait for a new leader",
		field: func(o *Options) value { return span{&o.LeaderWait, time.Millisecond, 100, 60000} },
	},
	{
		name: "client-reply-buffer-limit", group: limits, form: formBytes,
		help:  "maximum length of the unsent replies of a client",
		field: func(o *Options) value { return size{&o.ClientReplyBufferLimit, 64 * kib, 1 * gib} },
	},
	{
		name: "client-receive-buffer", group: limits, form: formBytes, change: immutable,
		help:  "kernel buffer of a client, 0 for its limit",
		field: func(o *Options) value { return size{&o.ClientReceiveBuffer, 0, 1 * gib} },
	},
	{
		name: "auth-failures-per-minute", group: limits, form: formNumber,
		help:  "maximum failed logins per address, 0 for no limit",
		field: func(o *Options) value { return number{&o.AuthFailuresPerMinute, 0, 1 << 20} },
	},
	{
		name: "acllog-max-len", group: limits, form: formNumber,
		help:  "maximum number of entries of ACL LOG",
		field: func(o *Options) value { return number{&o.ACLLogMaxLen, 0, 1024} },
	},
	{
		name: "overload-target", group: limits, form: formMillis,
		help:  "delay of unread commands until BUSY, 0 for never",
		field: func(o *Options) value { return span{&o.OverloadTarget, time.Millisecond, 0, 60000} },
	},
	{
		name: "shutdown-timeout", group: limits, form: formSeconds,
		help:  "time for clients to finish at shutdown",
		field: func(o *Options) value { return seconds(&o.ShutdownTimeout) },
	},
	{
		name: "window-log-max-entries", group: limits, form: formNumber,
		help:  "requests stored per key of CL.WINDOW ... LOG",
		field: func(o *Options) value { return number{&o.WindowLogMaxEntries, 1, 65536} },
	},

	{
		name: "rules", group: limits, form: formPath, change: protected,
		help:  "file of rules for CL.CHECK, \"\" for none",
		field: func(o *Options) value { return text{&o.Rules} },
	},

	{
		name: "http-port", group: edges, form: formNumber, change: immutable,
		help:  "TCP port of the HTTP server, 0 for none",
		field: func(o *Options) value { return number{&o.HTTPPort, 0, 65535} },
	},
	{
		name: "grpc-port", group: edges, form: formNumber, change: immutable,
		help:  "TCP port of the gRPC server, 0 for none",
		field: func(o *Options) value { return number{&o.GRPCPort, 0, 65535} },
	},
	{
		name: "edge-domain", group: edges, form: formName, change: immutable,
		help:  "domain of check requests that name none",
		field: func(o *Options) value { return text{&o.EdgeDomain} },
	},
	{
		name: "edge-attributes", group: edges, form: formSources, change: immutable, accumulates: true,
		help:  "attributes of check requests, from headers",
		field: func(o *Options) value { return words{&o.EdgeAttributes} },
	},
	{
		name: "trusted-proxies", group: edges, form: formNetworks, change: immutable,
		help:  "proxies to skip in forwarded-header",
		field: func(o *Options) value { return networks{&o.TrustedProxies} },
	},
	{
		name: "forwarded-header", group: edges, form: formName, change: immutable,
		help:  "client address: x-forwarded-for or forwarded",
		field: func(o *Options) value { return enum{&o.ForwardedHeader, []string{"x-forwarded-for", "forwarded"}} },
	},
	{
		name: "http-hosts", group: edges, form: formNames, change: immutable,
		help:  "host names of the HTTP server",
		field: func(o *Options) value { return words{&o.HTTPHosts} },
	},
	{
		name: "ratelimit-headers", group: edges, form: formNames, change: immutable,
		help: "headers of responses, \"\" for none",
		field: func(o *Options) value {
			return choices{&o.RateLimitHeaders, []string{"ratelimit", "x-ratelimit"}}
		},
	},
	{
		name: "x-ratelimit-reset", group: edges, form: formName, change: immutable,
		help:  "X-RateLimit-Reset: delta or epoch seconds",
		field: func(o *Options) value { return enum{&o.XRateLimitReset, []string{"delta", "epoch"}} },
	},
	{
		name: "http-proxy-protocol", group: edges, form: formYesNo, change: immutable,
		help:  "expect PROXY headers from trusted-proxies",
		field: func(o *Options) value { return boolean{&o.HTTPProxyProtocol} },
	},
	{
		name: "grpc-negative-hits", group: edges, form: formYesNo, change: immutable,
		help:  "accept refunds of Envoy",
		field: func(o *Options) value { return boolean{&o.GRPCNegativeHits} },
	},
	{
		name: "rls-headers", group: edges, form: formYesNo, change: immutable,
		help:  "send headers for the client to Envoy",
		field: func(o *Options) value { return boolean{&o.RLSHeaders} },
	},
	{
		name: "rls-metadata", group: edges, form: formYesNo, change: immutable,
		help:  "send dynamic metadata to Envoy",
		field: func(o *Options) value { return boolean{&o.RLSMetadata} },
	},

	{
		name: "maxmemory", group: memory, form: formBytes,
		help:  "memory for keys, 0 for no limit",
		field: func(o *Options) value { return size{&o.MaxMemory, 0, most64} },
	},
	{
		name: "maxmemory-policy", group: memory, form: formName,
		help: "noeviction or evict-smallest-debt",
		field: func(o *Options) value {
			return withReason{enum{&o.MaxMemoryPolicy, []string{"noeviction", "evict-smallest-debt"}},
				"with LRU, LFU or random eviction a flood of new keys would reset limits"}
		},
	},
	{
		name: "maxmemory-clients", group: memory, form: formShare,
		help:  "memory for clients, 0 for no limit",
		field: func(o *Options) value { return sizeOrPercent{&o.MaxMemoryClients} },
	},

	{
		name: "dir", group: snapshots, form: formPath, change: protected,
		help:  "working directory",
		field: func(o *Options) value { return directory{&o.Dir} },
	},
	{
		name: "dbfilename", group: snapshots, form: formName, change: protected,
		help:  "name of the snapshot in dir",
		field: func(o *Options) value { return filename{&o.DBFilename} },
	},
	{
		name: "save", group: snapshots, form: formSave, accumulates: true,
		help:  "when to write a snapshot, \"\" for never",
		field: func(o *Options) value { return savePoints{&o.Save} },
	},
	{
		name: "snapshot-fallback", group: snapshots, form: formYesNo, change: immutable,
		help:  "use the previous snapshot if the latest is bad",
		field: func(o *Options) value { return boolean{&o.SnapshotFallback} },
	},

	{
		name: "data-dir", group: replication, form: formPath, change: protected,
		help:  "directory of the replicated log, \"\" for none",
		field: func(o *Options) value { return text{&o.DataDir} },
	},
	{
		name: "replication", group: replication, form: formName, change: immutable,
		help:  "sync (replies wait for the commit) or async",
		field: func(o *Options) value { return enum{&o.Replication, []string{"sync", "async"}} },
	},
	{
		name: "raft-fsync", group: replication, form: formYesNo, change: immutable,
		help:  "sync log entries to disk before they are committed",
		field: func(o *Options) value { return boolean{&o.RaftFsync} },
	},
	{
		name: "raft-heartbeat", group: replication, form: formMillis, change: immutable,
		help:  "election timeout of a new cluster",
		field: func(o *Options) value { return span{&o.RaftHeartbeat, time.Millisecond, 100, 5000} },
	},
	{
		name: "cluster-id", group: replication, form: formName, change: immutable,
		help:  "name of the cluster, \"\" for a standalone server",
		field: func(o *Options) value { return name{&o.ClusterID} },
	},
	{
		name: "node-id", group: replication, form: formName, change: immutable,
		help:  "name of this node in the cluster",
		field: func(o *Options) value { return name{&o.NodeID} },
	},
	{
		name: "raft-addr", group: replication, form: formAddress, change: immutable,
		help:  "address to listen on for other nodes",
		field: func(o *Options) value { return endpoint{&o.RaftAddr} },
	},
	{
		name: "raft-advertise", group: replication, form: formAddress, change: immutable,
		help:  "address that other nodes use, \"\" for raft-addr",
		field: func(o *Options) value { return endpoint{&o.RaftAdvertise} },
	},
	{
		name: "bootstrap", group: replication, form: formNodes, change: immutable,
		help:  "all nodes of a new cluster",
		field: func(o *Options) value { return nodes{&o.Bootstrap} },
	},
	{
		name: "join", group: replication, form: formAddresses, change: immutable,
		help:  "raft-addr of nodes to join, at the first start",
		field: func(o *Options) value { return endpoints{&o.Join} },
	},
	{
		name: "raft-tls-cert", group: replication, form: formPath, change: protected,
		help:  "certificate of this node",
		field: func(o *Options) value { return text{&o.RaftTLSCert} },
	},
	{
		name: "raft-tls-key", group: replication, form: formPath, change: protected,
		help:  "key of that certificate",
		field: func(o *Options) value { return text{&o.RaftTLSKey} },
	},
	{
		name: "raft-tls-ca", group: replication, form: formPath, change: protected,
		help:  "certificate of the CA of all nodes",
		field: func(o *Options) value { return text{&o.RaftTLSCA} },
	},
	{
		name: "raft-tls-revoked", group: replication, form: formPath, change: protected,
		help:  "file of revoked serial numbers, \"\" for none",
		field: func(o *Options) value { return text{&o.RaftTLSRevoked} },
	},
	{
		name: "raft-insecure", group: replication, form: formYesNo, change: immutable,
		help:  "run without certificates, on loopback only",
		field: func(o *Options) value { return boolean{&o.RaftInsecure} },
	},
	{
		name: "announce-host", group: replication, form: formText, change: immutable,
		help:  "host for clients, \"\" for the raft-advertise host",
		field: func(o *Options) value { return text{&o.AnnounceHost} },
	},
	{
		name: "cluster-port", group: replication, form: formNumber, change: immutable,
		help:  "port for clients of Redis Cluster, 0 for none",
		field: func(o *Options) value { return number{&o.ClusterPort, 0, 65535} },
	},
	{
		name: "sentinel-port", group: replication, form: formNumber, change: immutable,
		help:  "port for clients of Redis Sentinel, 0 for none",
		field: func(o *Options) value { return number{&o.SentinelPort, 0, 65535} },
	},
	{
		name: "sentinel-master", group: replication, form: formName, change: immutable,
		help:  "name of the cluster for clients of Sentinel",
		field: func(o *Options) value { return name{&o.SentinelMaster} },
	},
	{
		name: "leader-port", group: replication, form: formNumber, change: immutable,
		help:  "leader's port in Sentinel replies, 0 for --port",
		field: func(o *Options) value { return number{&o.LeaderPort, 0, 65535} },
	},
}, upstreamRows, []row{
	{
		name: "loglevel", group: diagnostics, form: formName,
		help: "debug, verbose, notice or warning",
		field: func(o *Options) value {
			return enum{&o.LogLevel, []string{"debug", "verbose", "notice", "warning"}}
		},
	},
	{
		name: "logfile", group: diagnostics, form: formPath, change: confined,
		help:  "file to log to, \"\" for standard error",
		field: func(o *Options) value { return text{&o.LogFile} },
	},
	{
		name: "log-format", group: diagnostics, form: formName, change: immutable,
		help:  "text or json: an object per line",
		field: func(o *Options) value { return enum{&o.LogFormat, []string{"text", "json"}} },
	},
	{
		name: "slowlog-log-slower-than", group: diagnostics, form: formMicros,
		help: "minimum duration of a slow command, -1 for none",
		field: func(o *Options) value {
			return span{&o.SlowlogLogSlowerThan, time.Microsecond, -1, most64 / int64(time.Microsecond)}
		},
	},
	{
		name: "slowlog-max-len", group: diagnostics, form: formNumber,
		help:  "maximum number of commands in the slow log",
		field: func(o *Options) value { return number{&o.SlowlogMaxLen, 0, 1 << 20} },
	},
	{
		name: "latency-monitor-threshold", group: diagnostics, form: formMillis,
		help:  "minimum duration of a recorded event, 0 for none",
		field: func(o *Options) value { return span{&o.LatencyMonitorThreshold, time.Millisecond, 0, most32} },
	},
	{
		name: "metrics-max-limits", group: diagnostics, form: formNumber, change: immutable,
		help:  "limits of the rules with metrics of their own",
		field: func(o *Options) value { return number{&o.MetricsMaxLimits, 1, 100_000} },
	},
	{
		name: "otlp-endpoint", group: diagnostics, form: formText, change: immutable,
		help:  "URL for traces of HTTP and gRPC, \"\" for none",
		field: func(o *Options) value { return text{&o.OTLPEndpoint} },
	},
	{
		name: "otlp-sample-percent", group: diagnostics, form: formNumber, change: immutable,
		help:  "percentage of requests that are traced",
		field: func(o *Options) value { return number{&o.OTLPSamplePercent, 0, 100} },
	},

	{
		name: "databases", group: compatibility, form: formNumber,
		help: "always 1",
		field: func(o *Options) value {
			return singleValue{number{&o.Databases, 1, most32}, "1", "this server has one database"}
		},
	},
	{
		name: "appendonly", group: compatibility, form: formYesNo,
		help: "always no",
		field: func(o *Options) value {
			return singleValue{boolean{&o.AppendOnly}, "no", "this server has no append-only file"}
		},
	},
	{
		name: "replica-read-only", group: compatibility, form: formYesNo,
		help: "always yes",
		field: func(o *Options) value {
			return singleValue{boolean{&o.ReplicaReadOnly}, "yes", "this server has no writable replicas"}
		},
	},
	{
		name: "stop-writes-on-bgsave-error", group: compatibility, form: formYesNo,
		help: "always no",
		field: func(o *Options) value {
			return singleValue{boolean{&o.StopWritesOnBgsaveError}, "no", "this server continues when it cannot save"}
		},
	},
})

// seconds returns the value of a duration in whole seconds, from 0 to the maximum of Redis.
func seconds(p *time.Duration) value { return span{p, time.Second, 0, most32} }
