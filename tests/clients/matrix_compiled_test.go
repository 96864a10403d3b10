package clienttests

// The settings of compiled clients, as in docs/clients.md.
const (
	goRedisRetries = "`MaxRetries: 8`"
	rueidisRetries = "`ToRetryable()` for each command"
	programRepeats = "the program repeats calls without a reply for up to 5 s"
	radixRetries   = "the program repeats calls without a reply, each with a timeout of 1 s"
	managerTimeout = "`ConnectionManager` with `set_response_timeout(Some(Duration::from_secs(2)))`"
	poolRetries    = "a pool of `r2d2`; " + programRepeats
	noMode         = "not supported by the library"
	fredPolicy     = "`ReconnectPolicy::new_exponential(0, 20, 500, 2)`"
)

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
			modePlain:    radixRetries,
			modeCluster:  "`SyncEvery: 250 * time.Millisecond`; " + radixRetries,
			modeSentinel: "a `SentinelDialer` with the password; " + radixRetries,
		},
	},
	{
		name: "Jedis", set: "java", command: javaDriver("jedis"), modes: allModes, resp: []int{2, 3}, callers: loadCallers,
		lacks: map[string]string{modeCluster + " transaction": noMode},
		settings: map[string]string{
			modeCluster:  "`topologyRefreshPeriod(Duration.ofSeconds(1))`, and `setMaxTotal` and `setMaxWait` of the pool; " + programRepeats,
			modeSentinel: programRepeats,
		},
	},
	{
		name: "Lettuce", set: "java", command: javaDriver("lettuce"), modes: allModes, resp: []int{2, 3}, callers: loadCallers,
		lacks: map[string]string{modeCluster + " transaction": noMode},
		settings: map[string]string{
			modeCluster: "adaptive topology refresh with a timeout of 100 ms, periodic refresh each second, `TimeoutOptions.enabled(Duration.ofSeconds(1))`, " +
				"`DisconnectedBehavior.REJECT_COMMANDS`; " + programRepeats,
		},
	},
	{
		name: "Redisson", set: "java", command: javaDriver("redisson"), modes: allModes, resp: []int{2, 3}, callers: loadCallers,
		settings: map[string]string{modeCluster: "`setScanInterval(500)`"},
		lacks:    map[string]string{"locks, rate limiters and other objects made with scripts": "the server does not run scripts"},
	},
	{
		name: "redis-rs", set: "rust", command: rustDriver("redis-rs"), modes: allModes, resp: []int{2, 3}, callers: loadCallers,
		settings: map[string]string{modePlain: managerTimeout, modeSentinel: "`AsyncConnectionConfig` with the same timeout; the program repeats calls whose connection is lost with a new one from `SentinelClient`, for up to 5 s"},
	},
	{
		name: "redis-rs, blocking", set: "rust", command: rustDriver("redis-rs-sync"), modes: allModes, resp: []int{2, 3}, callers: loadCallers,
		lacks:    map[string]string{modeCluster + " transaction": noMode},
		settings: map[string]string{modePlain: poolRetries, modeCluster: poolRetries, modeSentinel: poolRetries},
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
