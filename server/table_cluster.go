package server

// clusterCommands returns the rows of the cluster commands. A command that differs between listener profiles has a row
// for each profile.
func clusterCommands() []command {
	const (
		help      = loading | stale
		reconnect = loading | stale | fast
		change    = admin | noscript | noMulti
	)
	rows := []command{
		{name: "cl.cluster", arity: -2, group: groupLimiter, since: "0.2.0", summary: "Commands about the cluster and its nodes"},
		{name: "cl.cluster|add", arity: 4, flags: change, leader: true, group: groupLimiter, since: "0.2.0", run: cmdMembersAdd,
			summary: "Adds a node to the cluster", args: "node-id address"},
		{name: "cl.cluster|hash", arity: 2, flags: admin, group: groupLimiter, since: "0.2.0", run: cmdMembersHash,
			tips: "nondeterministic_output", cost: "O(N) in the number of keys",
			summary: "Returns a checksum of the state of this node. Nodes at the same log index have the same checksum"},
		{name: "cl.cluster|help", arity: 2, flags: help, group: groupLimiter, since: "0.2.0", run: cmdHelp, summary: "Shows this text"},
		{name: "cl.cluster|nodes", arity: 2, flags: help, group: groupLimiter, since: "0.2.0", run: cmdMembersNodes,
			tips: "nondeterministic_output", summary: "Describes each node of the cluster"},
		{name: "cl.cluster|remove", arity: 3, flags: change, leader: true, group: groupLimiter, since: "0.2.0", run: cmdMembersRemove,
			summary: "Removes a node from the cluster", args: "node-id"},
		{name: "cl.cluster|set", arity: 4, flags: change, leader: true, group: groupLimiter, since: "0.2.0", run: cmdMembersSet,
			summary: "Changes a setting of the whole cluster: raft-heartbeat, in milliseconds", args: "setting value"},
		{name: "cl.cluster|status", arity: 2, flags: help, group: groupLimiter, since: "0.2.0", run: cmdMembersStatus,
			tips: "nondeterministic_output", summary: "Shows the status of the cluster as seen by this node"},
		{name: "cl.cluster|transfer", arity: -2, flags: change, leader: true, group: groupLimiter, since: "0.2.0", run: cmdMembersTransfer,
			summary: "Transfers leadership to another node", args: "[node-id]"},

		{name: "asking", arity: 1, flags: fast, profiles: onCluster, group: groupCluster, extra: catConnection, since: "3.0.0", run: cmdOK,
			summary: "Accepted for compatibility: slots are not migrated"},
		{name: "readonly", arity: 1, flags: reconnect, profiles: onCluster, group: groupCluster, extra: catConnection, since: "3.0.0", run: cmdOK,
			summary: "Accepted for compatibility: only the leader runs commands with keys"},
		{name: "readwrite", arity: 1, flags: reconnect, profiles: onCluster, group: groupCluster, extra: catConnection, since: "3.0.0", run: cmdOK,
			summary: "Accepted for compatibility: only the leader runs commands with keys"},
	}
	rows = append(rows, slotCommands()...)
	return append(rows, sentinelCommands()...)
}

// slotCommands returns the rows of CLUSTER and its subcommands, for clients of Redis Cluster.
func slotCommands() []command {
	const shifting = "nondeterministic_output"
	rows := []command{
		{name: "cluster", arity: -2, summary: "Commands about the cluster"},
		{name: "cluster|countkeysinslot", arity: 3, flags: stale, since: "3.0.0", run: cmdClusterCountKeys,
			summary: "Returns an error: keys are not counted by slot", args: "slot:integer"},
		{name: "cluster|help", arity: 2, flags: loading | stale, since: "5.0.0", run: cmdHelp, summary: "Shows this text"},
		{name: "cluster|info", arity: 2, flags: stale, since: "3.0.0", run: cmdClusterInfo, tips: shifting,
			summary: "Shows information about the cluster"},
		{name: "cluster|keyslot", arity: 3, flags: stale, since: "3.0.0", run: cmdClusterKeySlot, cost: "O(N) in the length of the key",
			summary: "Returns the slot of a key", args: "key:string"},
		{name: "cluster|myid", arity: 2, flags: stale, since: "3.0.0", run: cmdClusterMyID, summary: "Returns the id of this node"},
		{name: "cluster|nodes", arity: 2, flags: stale, since: "3.0.0", run: cmdClusterNodes, tips: shifting,
			cost: "O(N) in the number of nodes", summary: "Describes each node, one per line"},
		{name: "cluster|shards", arity: 2, flags: stale, since: "7.0.0", run: cmdClusterShards, tips: shifting,
			cost: "O(N) in the number of nodes", summary: "Returns the nodes: the leader has all slots"},
		{name: "cluster|slots", arity: 2, flags: stale, since: "3.0.0", run: cmdClusterSlots, tips: shifting,
			cost: "O(N) in the number of nodes", summary: "Returns the nodes: the leader has all slots"},
	}
	rows[0].since = "3.0.0"
	for i := range rows {
		rows[i].profiles, rows[i].group = onCluster, groupCluster
	}
	return rows
}

// sentinelCommands returns the rows of the commands that are supported only on the Sentinel port.
func sentinelCommands() []command {
	rows := []command{
		{name: "sentinel", arity: -2, since: "2.8.4", summary: "Commands about the leader"},
		{name: "sentinel|ckquorum", arity: 3, since: "2.8.4", run: cmdSentinelCkQuorum,
			summary: "Checks whether the cluster has a leader", args: "master-name"},
		{name: "sentinel|get-master-addr-by-name", arity: 3, since: "2.8.4", run: cmdSentinelAddr,
			summary: "Returns the address of the leader", args: "master-name"},
		{name: "sentinel|help", arity: 2, flags: loading | stale, since: "2.8.4", run: cmdHelp, summary: "Shows this text"},
		{name: "sentinel|master", arity: 3, since: "2.8.4", run: cmdSentinelMaster, summary: "Describes the leader", args: "master-name"},
		{name: "sentinel|masters", arity: 2, since: "2.8.4", run: cmdSentinelMasters, summary: "Describes the leader, in a list"},
		{name: "sentinel|myid", arity: 2, since: "6.2.0", run: cmdClusterMyID, summary: "Returns the id of this node"},
		{name: "sentinel|replicas", arity: 3, since: "5.0.0", run: cmdSentinelReplicas, cost: "O(N) in the number of nodes",
			summary: "Describes the followers", args: "master-name"},
		{name: "sentinel|sentinels", arity: 3, since: "2.8.4", run: cmdSentinelSentinels, cost: "O(N) in the number of nodes",
			summary: "Describes the other nodes that serve the Sentinel port", args: "master-name"},
		{name: "sentinel|slaves", arity: 3, since: "2.8.0", run: cmdSentinelReplicas, cost: "O(N) in the number of nodes",
			summary: "Describes the followers", args: "master-name"},
	}
	for i := range rows {
		rows[i].profiles, rows[i].group = onSentinel, groupSentinel
		if rows[i].name != "sentinel|help" {
			rows[i].flags = admin
		}
	}
	return rows
}
