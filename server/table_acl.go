package server

// aclCommands returns the rows of ACL and its subcommands.
func aclCommands() []command {
	const (
		session = noscript | loading | stale
		control = session | admin
	)
	rows := []command{
		{name: "acl", arity: -2, since: "6.0.0", summary: "Commands about users"},
		{name: "acl|cat", arity: -2, flags: session, since: "6.0.0", run: cmdACLCat, cost: "O(1)",
			summary: "Lists the categories of commands, or the commands of a category", args: "[category]"},
		{name: "acl|deluser", arity: -3, flags: control, since: "6.0.0", run: cmdACLDelUser,
			summary: "Deletes users, and closes their connections", args: "username..."},
		{name: "acl|dryrun", arity: -4, flags: control, since: "7.0.0", run: cmdACLDryRun,
			summary: "Returns whether a user may run a command, without running it", args: "username command [arg...]"},
		{name: "acl|genpass", arity: -2, flags: session, since: "6.0.0", run: cmdACLGenPass,
			summary: "Returns a random password, of 256 bits by default", args: "[bits:integer]"},
		{name: "acl|getuser", arity: 3, flags: control, since: "6.0.0", run: cmdACLGetUser,
			summary: "Describes a user", args: "username"},
		{name: "acl|help", arity: 2, flags: loading | stale, since: "6.0.0", run: cmdHelp, summary: "Shows this text"},
		{name: "acl|list", arity: 2, flags: control, since: "6.0.0", run: cmdACLList, cost: "O(N) in the number of users",
			summary: "Lists the users in the format of the file of users"},
		{name: "acl|load", arity: 2, flags: control, since: "6.0.0", afterReplies: true, run: cmdACLLoad,
			cost: "O(N) in the number of users", summary: "Replaces the users by those in aclfile"},
		{name: "acl|log", arity: -2, flags: control, since: "6.0.0", run: cmdACLLog, cost: "O(N) in the number of entries",
			summary: "Lists the latest commands and logins that were refused", args: "[count:integer|RESET]"},
		{name: "acl|save", arity: 2, flags: control, since: "6.0.0", afterReplies: true, run: cmdACLSave,
			cost: "O(N) in the number of users", summary: "Writes the users to aclfile"},
		{name: "acl|setuser", arity: -3, flags: control, since: "6.0.0", run: cmdACLSetUser, cost: "O(N) in the number of rules and users",
			summary: "Creates a user, or changes its passwords and permissions", args: "username [rule...]"},
		{name: "acl|users", arity: 2, flags: control, since: "6.0.0", run: cmdACLUsers, cost: "O(N) in the number of users",
			summary: "Lists the names of the users"},
		{name: "acl|whoami", arity: 2, flags: session, since: "6.0.0", run: cmdACLWhoAmI,
			summary: "Returns the name of the user of the connection"},
	}
	for i := range rows {
		rows[i].group = groupServer
	}
	return rows
}
