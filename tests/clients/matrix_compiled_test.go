package clienttests

// The settings of compiled clients, as in docs/clients.md.
const (
	goRedisRetries = "`MaxRetries: 8`"
	rueidisRetries = "`ToRetryable()` for each command"
	managerTimeout = "`ConnectionManager` with `set_response_timeout(Some(Duration::from_secs(2)))`"
	blockingPool   = "a pool of `r2d2`"
	noMode         = "not supported by the library"
	fredPolicy     = "`ReconnectPolicy::new_exponential(0, 20, 500, 2)`"
)

// radixLoop is the loop around the calls of radix.
var radixLoop = loopIn("limit_radix.go") + ", each attempt with a timeout of 1 s"

// compiledDrivers are the drivers for Go, Java and Rust.
var compiledDrivers = []driver{
	{
		name: "go-redis", set: "go", command: goDriver("go-redis"), modes: allModes, resp: []int{2, 3}, callers: loadCallers,
		settings: map[string]string{
			modePlain:    goRedisRetries,
			modeCluster:  "`MaxRedirects: 8`, `ClusterStateReloadInterval: time.Second`",
			modeSentinel: "`MaxRetries: 10`, `MaxRetryBackoff: 100 * time.Millisecond`, `DialerRetries: 1`, `PoolSize: 200`, `SentinelPassword`",
		},
	},
	{
		name: "rueidis", set: "go", command: goDriver("rueidis"), modes: allModes, resp: []int{2, 3}, callers: loadCallers,
		settings: map[string]string{
			modePlain:    rueidisRetries,
			modeCluster:  rueidisRetries,
			modeSentinel: rueidisRetries + "; `Sentinel.MasterSet`, `Sentinel.Password`",
		},
	},
	{
		name: "redigo", set: "go", command: goDriver("redigo"), modes: []string{modePlain}, callers: loadCallers,
		lacks: map[string]string{modeCluster: noMode, modeSentinel: noMode, "RESP3": "the library has no RESP3"},
	},
	{
		name: "radix", set: "go", command: goDriver("radix"), modes: allModes, resp: []int{2, 3}, callers: loadCallers,
		settings: map[string]string{
			modePlain:    radixLoop + ": after a restart of the server, each connection of the pool fails a call",
			modeCluster:  "`SyncEvery: 250 * time.Millisecond`; " + radixLoop,
			modeSentinel: "a `SentinelDialer` with the password; " + radixLoop,
		},
		repeats: allModes,
	},
	{
		name: "Jedis", set: "java", command: javaDriver("jedis"), modes: allModes, resp: []int{2, 3}, callers: loadCallers,
		lacks: map[string]string{modeCluster + " transaction": noMode},
		settings: map[string]string{
			modeCluster:  "`topologyRefreshPeriod(Duration.ofSeconds(1))`, `maxTotalRetriesDuration(Duration.ofSeconds(5))`, and `setMaxTotal` and `setMaxWait` of the pool",
			modeSentinel: "a `RetryableCommandExecutor` with 5 attempts in 5 s as `commandExecutor`, and its `SentineledConnectionProvider` as `connectionProvider`",
		},
	},
	{
		name: "Lettuce", set: "java", command: javaDriver("lettuce"), modes: allModes, resp: []int{2, 3}, callers: loadCallers,
		lacks: map[string]string{modeCluster + " transaction": noMode},
		settings: map[string]string{
			modeCluster: "adaptive topology refresh with a timeout of 100 ms, periodic refresh each second, `TimeoutOptions.enabled(Duration.ofSeconds(1))`, " +
				"`DisconnectedBehavior.REJECT_COMMANDS`; " + loopIn("LimitLettuce.java"),
		},
		repeats: []string{modeCluster},
	},
	{
		name: "Redisson", set: "java", command: javaDriver("redisson"), modes: allModes, resp: []int{2, 3}, callers: loadCallers,
		settings: map[string]string{modeCluster: "`setScanInterval(500)`"},
		lacks:    map[string]string{"locks, rate limiters and other objects made with scripts": "the server does not run scripts"},
	},
	{
		name: "redis-rs", set: "rust", command: rustDriver("redis-rs"), modes: allModes, resp: []int{2, 3}, callers: loadCallers,
		settings: map[string]string{modePlain: managerTimeout, modeSentinel: "`AsyncConnectionConfig` with the same timeout; the program repeats calls whose connection is lost with a new one from `SentinelClient`, as [limit_sentinel.rs](../examples/clients/limit_sentinel.rs)"},
		repeats:  []string{modeSentinel},
	},
	{
		name: "redis-rs, blocking", set: "rust", command: rustDriver("redis-rs-sync"), modes: allModes, resp: []int{2, 3}, callers: loadCallers,
		lacks: map[string]string{modeCluster + " transaction": noMode},
		settings: map[string]string{
			modePlain:    blockingPool,
			modeCluster:  blockingPool + "; " + loopIn("limit_blocking.rs"),
			modeSentinel: blockingPool,
		},
		repeats: []string{modeCluster},
	},
	{
		name: "redis-cell-rs", set: "rust", command: rustDriver("redis-cell-rs"), modes: []string{modePlain}, resp: []int{2, 3}, callers: loadCallers,
		lacks: map[string]string{
			"error":      "the library does not make invalid commands",
			modeCluster:  "the library only makes commands: the connection is that of redis-rs",
			modeSentinel: "the library only makes commands: the connection is that of redis-rs",
		},
		settings: map[string]string{modePlain: managerTimeout},
	},
	{
		name: "fred", set: "rust", command: rustDriver("fred"), modes: allModes, resp: []int{2, 3}, callers: loadCallers,
		lacks:    map[string]string{"RESP3 and a password with a space": "the library sends the password without quotation marks"},
		settings: map[string]string{modePlain: fredPolicy, modeCluster: fredPolicy, modeSentinel: fredPolicy},
	},
}

func goDriver(client string) []string { return []string{"{cache}/go/driver", "--client", client} }

func rustDriver(client string) []string {
	return []string{"{cache}/rust/debug/driver", "--client", client}
}

// javaDriver starts Java with the options for short runs.
func javaDriver(client string) []string {
	return []string{"java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", "{cache}/java/classes:{cache}/java/lib/*", "driver.Main", "--client", client}
}
