package server

// liveRulesCommands returns the rows of CL.RULES. All subcommands except HELP run on the leader, so that a client that
// changes the rules on one node reads them on every node. Without a leader, a node shows the rules that it has stored.
func liveRulesCommands() []command {
	const (
		since  = "0.3.0"
		inside = admin | noscript | noMulti
		sizeN  = "O(N) in the size of the rules"
	)
	rows := []command{
		{name: "cl.rules", arity: -2, summary: "Commands about the rules"},
		{name: "cl.rules|explain", arity: -3, flags: inside, leader: true, leaderless: true, long: true, run: cmdRulesExplain,
			cost:    "O(N) in the number of limits of the domain",
			summary: "Explains which limits apply to a request, and why others do not", args: "domain [name value]..."},
		{name: "cl.rules|get", arity: -2, flags: inside, leader: true, leaderless: true, long: true, run: cmdRulesGet, cost: sizeN,
			summary: "Returns the text of the newest version, or of another one", args: "[version:integer]"},
		{name: "cl.rules|help", arity: 2, flags: loading | stale, run: cmdHelp, summary: "Shows this text"},
		{name: "cl.rules|history", arity: -2, flags: inside, leader: true, leaderless: true, long: true, run: cmdRulesHistory,
			cost: "O(N) in the number of versions", summary: "Lists the newest versions, 20 by default", args: "[count:integer]"},
		{name: "cl.rules|list", arity: 2, flags: inside, leader: true, leaderless: true, long: true, run: cmdRulesList, cost: "O(N) in the number of limits",
			summary: "Lists the domains and the names of their limits"},
		{name: "cl.rules|patch", arity: -3, flags: inside, leader: true, run: cmdRulesPatch, cost: sizeN,
			summary: "Changes the rules by a merge patch, in YAML or JSON", args: "patch [BASE version:integer] [AUTHOR name]"},
		{name: "cl.rules|rollback", arity: -3, flags: inside, leader: true, run: cmdRulesRollback, cost: sizeN,
			summary: "Makes the text of an earlier version the newest version", args: "version:integer [BASE version:integer] [AUTHOR name]"},
		{name: "cl.rules|set", arity: -3, flags: inside, leader: true, run: cmdRulesSet, cost: sizeN,
			summary: "Replaces the rules", args: "text [BASE version:integer] [AUTHOR name]"},
	}
	for i := range rows {
		rows[i].group, rows[i].since = groupLimiter, since
	}
	return rows
}

// changesRules reports whether a command changes the rules.
func (cmd *command) changesRules() bool {
	switch cmd.name {
	case "cl.rules|set", "cl.rules|patch", "cl.rules|rollback":
		return true
	}
	return false
}
