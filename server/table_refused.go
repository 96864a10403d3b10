package server

// refusedCommands returns the rows of Redis commands that this server never runs. They have rows so that the error
// gives the reason and the remedy. If these commands were unknown, some clients would retry them forever.
func refusedCommands() []command {
	const script = noscript | stale | skipMonitor
	rows := []command{
		{name: "eval", arity: -3, flags: script, since: "2.6.0", args: "script numkeys:integer [key...] [arg...]"},
		{name: "evalsha", arity: -3, flags: script, since: "2.6.0", args: "sha1 numkeys:integer [key...] [arg...]"},
		{name: "eval_ro", arity: -3, flags: script | readonly, since: "7.0.0", args: "script numkeys:integer [key...] [arg...]"},
		{name: "evalsha_ro", arity: -3, flags: script | readonly, since: "7.0.0", args: "sha1 numkeys:integer [key...] [arg...]"},
		{name: "script", arity: -2, since: "2.6.0", args: "subcommand [arg...]"},
		{name: "function", arity: -2, since: "7.0.0", args: "subcommand [arg...]"},
		{name: "fcall", arity: -3, flags: script, since: "7.0.0", args: "function numkeys:integer [key...] [arg...]"},
		{name: "fcall_ro", arity: -3, flags: script | readonly, since: "7.0.0", args: "function numkeys:integer [key...] [arg...]"},
	}
	for i := range rows {
		rows[i].group, rows[i].extra, rows[i].refusal = groupScripting, catScripting, errNoScripts
		rows[i].summary = "Returns an error: scripts are not supported"
	}
	return append(rows, lifetimeCommands()...)
}

// lifetimeCommands returns the rows of commands that change the lifetime of a key.
func lifetimeCommands() []command {
	rows := []command{
		{name: "expire", arity: -3, since: "1.0.0", args: "key seconds:integer [NX|XX|GT|LT]"},
		{name: "expireat", arity: -3, since: "1.2.0", args: "key unix-time-seconds:integer [NX|XX|GT|LT]"},
		{name: "persist", arity: 2, since: "2.2.0", args: "key"},
		{name: "pexpire", arity: -3, since: "2.6.0", args: "key milliseconds:integer [NX|XX|GT|LT]"},
		{name: "pexpireat", arity: -3, since: "2.6.0", args: "key unix-time-milliseconds:integer [NX|XX|GT|LT]"},
	}
	for i := range rows {
		rows[i].flags, rows[i].keys = write|fast, oneKey.withAccess("RW update")
		rows[i].group, rows[i].refusal = groupGeneric, errNoLifetime
		rows[i].summary = "Returns an error: the expiry of a limiter key cannot be changed"
	}
	return rows
}
