package server

// backupCommands returns the rows of CL.BACKUP. A client calls INDEX, START and then NEXT until it returns an empty string.
// INDEX runs on the leader, the others on the node of the client, so that the leader need not send the backup.
func backupCommands() []command {
	const inside = admin | noscript | noMulti
	rows := []command{
		{name: "cl.backup", arity: -2, summary: "Commands that read a snapshot of all keys"},
		{name: "cl.backup|help", arity: 2, flags: loading | stale, run: cmdHelp, summary: "Shows this text"},
		{name: "cl.backup|index", arity: 2, flags: inside, leader: true, run: cmdBackupIndex, tips: "nondeterministic_output",
			summary: "Returns the log index that a backup needs to contain all acknowledged changes"},
		{name: "cl.backup|next", arity: 2, flags: inside, afterReplies: true, run: cmdBackupNext, tips: "nondeterministic_output",
			summary: "Returns the next bytes of the snapshot, or an empty string at its end"},
		{name: "cl.backup|start", arity: -2, flags: inside, afterReplies: true, run: cmdBackupStart, tips: "nondeterministic_output",
			cost: "O(N) in the number of keys", summary: "Starts a snapshot of this node, when it has applied the log index", args: "[index:integer]"},
	}
	for i := range rows {
		rows[i].group, rows[i].since = groupLimiter, "0.4.0"
	}
	return rows
}
