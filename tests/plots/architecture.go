package main

// architecture returns the diagram of README.md and ARCHITECTURE.md.
func architecture() diagram {
	return diagram{
		width: 770, height: 526,
		title: "Architecture of throttled",
		desc: "Clients send commands to the server. Its RESP reader splits a pipeline into commands, the command table checks " +
			"them, and a batch of limiter commands is decided by one call. The buckets hold the state of all keys in shards. " +
			"The algorithms compute a decision from limit, state and time. With a data directory, each change is an entry of a " +
			"Raft log that a majority of the nodes commits; without one, records are saved to snapshots. Followers apply the " +
			"log, and forward the commands of their clients to the leader.",
		blocks: architectureBlocks,
		arrows: architectureArrows,
	}
}

var architectureBlocks = []block{
	{frame, rect{20, 16, 480, 66}, "Clients", nil},
	{box, rect{32, 42, 106, 30}, "API gateways", nil},
	{box, rect{148, 42, 106, 30}, "middleware", nil},
	{box, rect{264, 42, 106, 30}, "sidecars", nil},
	{box, rect{380, 42, 106, 30}, "redis-cli", nil},

	{frame, rect{20, 122, 480, 98}, "Server: standalone, or the leader of a cluster", nil},
	{box, rect{32, 148, 136, 62}, "RESP reader", []string{"splits a pipeline", "into commands"}},
	{box, rect{192, 148, 136, 62}, "Command table", []string{"checks whether a", "command may run"}},
	{box, rect{352, 148, 136, 62}, "Batch", []string{"up to 64 requests,", "decided together"}},

	{frame, rect{20, 260, 480, 128}, "Buckets: the state of all keys, in memory", nil},
	{box, rect{32, 288, 106, 88}, "shard 1", []string{"lock", "index", "records"}},
	{box, rect{148, 288, 106, 88}, "shard 2", []string{"lock", "index", "records"}},
	{box, rect{264, 288, 106, 88}, "...", nil},
	{box, rect{380, 288, 106, 88}, "shard 2048", []string{"lock", "index", "records"}},

	{frame, rect{20, 428, 480, 82}, "Algorithms: integer arithmetic without state", nil},
	{box, rect{32, 454, 106, 46}, "GCRA", []string{"CL.THROTTLE"}},
	{box, rect{148, 454, 106, 46}, "windows", []string{"CL.WINDOW"}},
	{box, rect{264, 454, 106, 46}, "token bucket", []string{"CL.BUCKET"}},
	{box, rect{380, 454, 106, 46}, "leaky bucket", []string{"CL.LEAKY"}},

	{box, rect{580, 122, 170, 98}, "Followers", []string{"apply the log,", "forward commands", "to the leader"}},
	{box, rect{580, 260, 170, 58}, "Raft log", []string{"with a data directory:", "committed by a majority"}},
	{box, rect{580, 330, 170, 58}, "Snapshots", []string{"without one: saved to", "a file in the background"}},
}

var architectureArrows = []arrow{
	{[]point{{100, 82}, {100, 122}}, caption{"Redis protocol", point{108, 106}, anchorStart, small}},
	{[]point{{500, 49}, {665, 49}, {665, 122}}, caption{"clients may use any node", point{508, 42}, anchorStart, small}},
	{[]point{{168, 179}, {192, 179}}, caption{}},
	{[]point{{328, 179}, {352, 179}}, caption{}},
	{[]point{{580, 171}, {500, 171}}, caption{"commands", point{540, 163}, anchorMiddle, small}},
	{[]point{{420, 220}, {420, 260}}, caption{"one call per batch", point{412, 244}, anchorEnd, small}},
	{[]point{{260, 388}, {260, 428}}, caption{"limit, state and time in, decision out", point{268, 412}, anchorStart, small}},
	{[]point{{500, 289}, {580, 289}}, caption{"changes", point{540, 281}, anchorMiddle, small}},
	{[]point{{500, 359}, {580, 359}}, caption{"records", point{540, 351}, anchorMiddle, small}},
	{[]point{{665, 260}, {665, 220}}, caption{"entries", point{673, 244}, anchorStart, small}},
}
