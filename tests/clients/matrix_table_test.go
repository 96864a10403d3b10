package clienttests

const (
	loadCallers       = 10  // concurrent callers of the check "load", if the client has concurrency
	concurrentCallers = 50  // concurrent callers of the check "concurrent"
	concurrentLimit   = 100 // the limit on which they call
)

var allModes = []string{modePlain, modeCluster, modeSentinel}

// drivers are all drivers. The quick part of the matrix runs those of the set "debian".
var drivers = []driver{
	{
		name: "redis-py", set: "python", command: []string{"{cache}/python/bin/python", "redis_py.py"},
		modes: allModes, resp: []int{2, 3}, callers: loadCallers,
		settings: map[string]string{
			modeCluster:  "`retry=Retry(NoBackoff(), 100)`",
			modeSentinel: "`sentinel_kwargs={'password': ..., 'retry': Retry(NoBackoff(), 0)}`; `retry=Retry(ExponentialBackoff(cap=0.2, base=0.02), 10)` and `retry_on_error=[BusyLoadingError, ConnectionError]` in `master_for`",
		},
	},
	{
		name: "redis-py, asyncio", set: "python", command: []string{"{cache}/python/bin/python", "redis_py_asyncio.py"},
		modes: allModes, resp: []int{2, 3}, callers: loadCallers,
		settings: map[string]string{modeCluster: "`retry=Retry(NoBackoff(), 1000)`", modeSentinel: "as redis-py"},
	},
	{
		name: "redis-py (Debian)", set: "debian", command: []string{"/usr/bin/python3", "redis_py.py"},
		modes: []string{modePlain, modeSentinel}, callers: loadCallers,
		lacks: map[string]string{
			modeCluster: "the cluster client of version 4 can fail permanently if several threads use it while the leader changes",
			"RESP3":     "version 4 has no RESP3",
		},
	},
}
