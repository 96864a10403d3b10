package clienttests

import "slices"

const (
	loadCallers       = 10  // concurrent callers of the check "load", if the client has concurrency
	concurrentCallers = 50  // concurrent callers of the check "concurrent"
	concurrentLimit   = 100 // the limit on which they call
)

var allModes = []string{modePlain, modeCluster, modeSentinel}

// drivers are all drivers. The quick part of the matrix runs those of the set "debian".
var drivers = slices.Concat(scriptDrivers, compiledDrivers)

// scriptDrivers are the drivers for scripting languages and tools.
var scriptDrivers = []driver{
	{
		name: "redis-py", set: "python", command: []string{"{cache}/python/bin/python", "redis_py.py"},
		modes: allModes, resp: []int{2, 3}, callers: loadCallers,
		settings: map[string]string{
			modeCluster:  "`retry=Retry(NoBackoff(), 100)`",
			modeSentinel: "`sentinel_kwargs={'password': ..., 'retry': Retry(NoBackoff(), 0)}`; `retry=Retry(ConstantBackoff(0.05), 12)` and `retry_on_error=[BusyLoadingError, ConnectionError]` in `master_for`",
		},
	},
	{
		name: "redis-py, asyncio", set: "python", command: []string{"{cache}/python/bin/python", "redis_py_asyncio.py"},
		modes: allModes, resp: []int{2, 3}, callers: loadCallers,
		settings: map[string]string{modeCluster: loopIn("limit_asyncio.py"), modeSentinel: "as redis-py"},
		repeats:  []string{modeCluster},
	},
	{
		name: "redis-py (Debian)", set: "debian", command: []string{"/usr/bin/python3", "redis_py.py"},
		modes: []string{modePlain, modeSentinel}, callers: loadCallers,
		lacks: map[string]string{
			modeCluster: "the cluster client of version 4 can fail permanently if several threads use it while the leader changes",
			"RESP3":     "version 4 has no RESP3",
		},
	},
	{
		name: "node-redis", set: "node", command: []string{"node", "node_redis.js"}, env: []string{nodePath},
		modes: allModes, resp: []int{2, 3}, callers: loadCallers,
		settings: map[string]string{modeCluster: "`topologyRefreshOnReconnectionAttemptStrategy: 200`; " + loopIn("limit_node_redis.js")},
		repeats:  []string{modeCluster},
		lacks: map[string]string{
			modeCluster + " auth":  "the library reports a wrong password as unreachable nodes",
			modeSentinel + " auth": "the library reports a wrong password as unreachable nodes",
		},
	},
	{
		name: "ioredis", set: "node", command: []string{"node", "ioredis.js"}, env: []string{nodePath},
		modes: allModes, resp: []int{2, 3}, callers: loadCallers,
		lacks: map[string]string{
			modeCluster + " auth":  "the library repeats a login with a wrong password without end",
			modeSentinel + " auth": "the library repeats a login with a wrong password without end",
		},
	},
	{
		name: "phpredis", set: "debian", command: []string{"php", "phpredis.php"},
		modes: []string{modePlain, modeSentinel}, callers: 1,
		lacks: map[string]string{
			modeCluster:            "a `RedisCluster` object that is used after an error hangs",
			"RESP3":                "version 5 has no RESP3",
			modeSentinel + " auth": "`RedisSentinel` reports a wrong password as a lost connection",
			modeSentinel + " TLS":  "`RedisSentinel` has no option for the certificate of a CA",
		},
		settings: map[string]string{modeSentinel: "the program asks `RedisSentinel` for the leader and connects anew after an error, and repeats this for up to 2 s, as [limit.php](../examples/clients/limit.php)"},
		repeats:  []string{modeSentinel},
	},
	{
		name: "predis", set: "debian", command: []string{"php", "predis.php"},
		modes: []string{modePlain}, callers: 1,
		lacks: map[string]string{
			modeCluster:  "to a cluster, version 1 sends only commands that it supports",
			modeSentinel: "version 1 sends no password to a Sentinel, and has no transactions in this mode",
			"RESP3":      "version 1 has no RESP3",
		},
	},
	{
		name: "redis-rb", set: "debian", command: []string{"ruby", "redis_rb.rb"},
		modes: allModes, callers: loadCallers,
		lacks: map[string]string{"RESP3": "version 4 has no RESP3"},
		settings: map[string]string{
			modeCluster:  loopIn("limit_cluster.rb"),
			modeSentinel: "`reconnect_attempts: 10, reconnect_delay: 0.05, reconnect_delay_max: 0.2`",
		},
		repeats: []string{modeCluster},
	},
	{
		name: "Perl Redis", set: "debian", command: []string{"perl", "redis_perl.pl"},
		modes: []string{modePlain}, callers: 1,
		lacks: map[string]string{
			modeCluster:  "the module has no cluster client",
			modeSentinel: "the module sends no password to a Sentinel",
			"RESP3":      "the module has no RESP3",
			"TLS":        "the module has no option for the certificate of a CA",
		},
		settings: map[string]string{modePlain: "`reconnect => 1, every => 50_000`: without them, the module does not connect again"},
	},
	{
		name: "lua-redis", set: "debian", command: []string{"lua5.1", "lua_redis.lua"},
		modes: []string{modePlain}, callers: 1,
		lacks: map[string]string{
			modeCluster:  "the library has no cluster client",
			modeSentinel: "the library has no Sentinel client",
			"RESP3":      "the library has no RESP3",
			"TLS":        "the library has no TLS",
		},
	},
	{
		name: "redis-cli", set: "debian", command: []string{"/usr/bin/python3", "redis_cli.py"},
		modes: []string{modePlain}, resp: []int{2, 3}, callers: 1,
		lacks: map[string]string{
			modeCluster:  "`redis-cli -c` follows redirects, but has the address of one node only",
			modeSentinel: "`redis-cli` does not ask a Sentinel for the leader",
		},
	},
	{
		name: "hiredis", set: "debian", command: []string{"{cache}/hiredis"}, build: []string{"cc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", "{cache}/hiredis", "hiredis.c", "-lhiredis"},
		modes: []string{modePlain}, callers: 1,
		lacks: map[string]string{
			modeCluster:  "the library has no cluster client",
			modeSentinel: "the library has no Sentinel client",
			"RESP3":      "version 0.14 has no RESP3",
			"TLS":        "version 0.14 has no TLS",
		},
	},
}

// loopIn describes the loop of a program in examples/clients.
func loopIn(file string) string {
	return "the program repeats calls without a reply, as [" + file + "](../examples/clients/" + file + ")"
}

const nodePath = "NODE_PATH={cache}/node/node_modules"
