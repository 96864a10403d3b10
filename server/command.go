package server

import (
	"slices"
	"strings"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/resp"
)

// flags are the properties of a command that COMMAND shows. Some of them determine whether the command may run. Names
// and order are those of Redis.
type flags uint32

const (
	write flags = 1 << iota
	readonly
	denyOOM
	admin
	pubsub
	noscript
	loading
	stale
	skipMonitor
	skipSlowlog
	fast
	noAuth
	noAsyncLoading
	noMulti
	allowBusy
	movableKeys // the positions of the keys depend on the arguments
)

var flagNames = []string{
	"write", "readonly", "denyoom", "admin", "pubsub", "noscript", "loading", "stale",
	"skip_monitor", "skip_slowlog", "fast", "no_auth", "no_async_loading", "no_multi", "allow_busy", "movablekeys",
}

// categories are the ACL categories of Redis. Most categories are derived from the flags and the group of a command.
type categories uint32

const (
	catKeyspace categories = 1 << iota
	catRead
	catWrite
	catSet
	catSortedSet
	catList
	catHash
	catString
	catBitmap
	catHyperLogLog
	catGeo
	catStream
	catPubsub
	catAdmin
	catFast
	catSlow
	catBlocking
	catDangerous
	catConnection
	catTransaction
	catScripting
	catLimits // commands that decide limits
)

// categoryNames has the categories of Redis, in its order, and those of this server. Those of data types have no
// commands; they exist so that the rules of users of Redis are valid.
var categoryNames = []string{
	"@keyspace", "@read", "@write", "@set", "@sortedset", "@list", "@hash", "@string", "@bitmap", "@hyperloglog", "@geo",
	"@stream", "@pubsub", "@admin", "@fast", "@slow", "@blocking", "@dangerous", "@connection", "@transaction",
	"@scripting", "@limits",
}

// Command groups of the Redis documentation, and the group of the limiter commands.
const (
	groupConnection   = "connection"
	groupGeneric      = "generic"
	groupServer       = "server"
	groupTransactions = "transactions"
	groupPubsub       = "pubsub"
	groupCluster      = "cluster"
	groupSentinel     = "sentinel"
	groupScripting    = "scripting"
	groupLimiter      = "module"
)

// keySpec describes which arguments are keys, and how the command accesses the keys. The keys are the arguments at the
// indexes first, first+step and so on, up to last. A negative last counts from the end. If first is 0, the command has
// no keys.
type keySpec struct {
	first, last, step int
	access            string
	needs             acl.Access // set by newRegistry; see accessOf
}

var (
	oneKey    = keySpec{first: 1, last: 1, step: 1, access: "RO"}
	manyKeys  = keySpec{first: 1, last: -1, step: 1, access: "RO"}
	secondKey = keySpec{first: 2, last: 2, step: 1, access: "RO"}
	specKey   = keySpec{first: 3, last: 3, step: 1, access: "RO"} // key of the first limit of CL.ALL
)

func (k keySpec) withAccess(access string) keySpec {
	k.access = access
	return k
}

// parseFunc parses the arguments of a limiter command. The caller has checked the arity. A parseFunc appends the requests
// of the command to p.reqs. Their keys point into args. If the error is not nil, the caller drops the requests that were
// appended.
type parseFunc func(p *parsing, args [][]byte) error

// command is a row of the command table.
type command struct {
	name     string // lower case; a subcommand is named "container|sub"
	arity    int    // number of arguments including the name; -n means at least n
	flags    flags
	extra    categories // categories that are not derived from the flags and the group
	keys     keySpec
	channels channelUse
	tips     string // command tips of Redis, separated by spaces
	group    string
	since    string
	cost     string // complexity; "" means O(1)
	summary  string
	args     string // arguments after the name, in the notation of syntax.go
	profiles profileSet
	// leader marks a command that does not touch keys, but that only the leader can run.
	leader bool
	// leaderless marks a command with the field leader that a node runs itself while it has no leader.
	leaderless bool
	// forwarded marks a command that any node can run, but that nodes may also send to the leader.
	forwarded bool
	// leases marks a command that draws or returns units of a lease. A node appends USER and the user of the client before it
	// forwards the command. The reply is not a decision on a request, so the statistics of decisions do not include it.
	leases bool
	// ownStream marks a command that is forwarded over a stream used by no other client.
	ownStream bool
	// long marks a command whose reply may take megabytes. The number of such commands that run concurrently is
	// limited.
	long bool
	// afterReplies marks a command that may block for long. The replies to earlier commands are written before it runs.
	afterReplies bool

	// rules marks a limiter command that uses the rules.
	rules bool
	// report marks a command that reports the outcome of a request. It is not repeated if a limit is full, and on_failure
	// does not apply to it.
	report bool

	// A row sets either refusal, or run, or both parse and reply. The row of a command with subcommands may set none
	// of these fields.

	// refusal is the error reply of a command that never runs.
	refusal replyError
	run     func(c *client, args [][]byte) error
	parse   parseFunc
	// explain is called if the number of arguments is wrong. It returns an error that is more precise than errArity, or
	// nil. Optional.
	explain func(args [][]byte) error
	// reply appends the reply to a call of the command in b, whose requests are decided. The decisions contain no error.
	reply func(out *resp.Reply, b *batch, call *call)

	// newRegistry sets the fields below.
	id     int    // index of the name in commandNames
	upper  string // name in upper case; "" if the command is a container or a subcommand
	subs   []*command
	bySub  map[string]*command
	syntax []argument
}

func (cmd *command) is(f flags) bool { return cmd.flags&f != 0 }

// isNamed reports whether a name is that of the command, in lower case or in upper case, so that no search is required. It
// is always false for a container or a subcommand.
func (cmd *command) isNamed(name []byte) bool {
	return cmd.upper != "" && (string(name) == cmd.upper || string(name) == cmd.name)
}

// touchesKeys reports whether a command reads or writes the keyspace.
func (cmd *command) touchesKeys() bool {
	return cmd.flags&(write|readonly) != 0 || cmd.keys.first > 0
}

// needsLeader reports whether a command must run on the leader.
func (cmd *command) needsLeader() bool { return cmd.leader || cmd.touchesKeys() }

// isForwarded reports whether a node may send the command to the leader. From other nodes, a node accepts only these
// commands.
func (cmd *command) isForwarded() bool { return cmd.forwarded || cmd.needsLeader() }

// errArguments returns the error for a wrong number of arguments.
func (cmd *command) errArguments(args [][]byte) error {
	if cmd.explain != nil {
		if err := cmd.explain(args); err != nil {
			return err
		}
	}
	return errArity(cmd.name)
}

func (cmd *command) arityFits(n int) bool {
	return n == cmd.arity || cmd.arity < 0 && n >= -cmd.arity
}

// container returns the name of the container if cmd is a subcommand, and otherwise "".
func (cmd *command) container() string {
	container, _, found := strings.Cut(cmd.name, "|")
	if !found {
		return ""
	}
	return container
}

// categories returns the ACL categories, derived by the rules of Redis.
func (cmd *command) categories() categories {
	cats := cmd.extra
	for _, rule := range []struct {
		holds bool
		cats  categories
	}{
		{cmd.is(write), catWrite},
		{cmd.is(readonly), catRead},
		{cmd.is(admin), catAdmin | catDangerous},
		{cmd.is(pubsub), catPubsub},
		{cmd.parse != nil, catLimits},
		{cmd.is(fast), catFast},
		{!cmd.is(fast), catSlow},
		{cmd.group == groupConnection && len(cmd.subs) == 0, catConnection},
		{cmd.group == groupTransactions, catTransaction},
		{cmd.group == groupGeneric && len(cmd.subs) == 0 && cmd.extra&catConnection == 0, catKeyspace},
	} {
		if rule.holds {
			cats |= rule.cats
		}
	}
	return cats
}

// keysOf returns the arguments that are keys. For a command with movable keys, it returns only the first key. The
// caller has checked the arity.
func (cmd *command) keysOf(args [][]byte) [][]byte {
	var keys [][]byte
	for i, last := cmd.keys.bounds(args); i > 0 && i <= last; i += cmd.keys.step {
		keys = append(keys, args[i])
	}
	return keys
}

// bounds returns the indexes of the first and the last key in args. If there are no keys, first is 0.
func (k *keySpec) bounds(args [][]byte) (first, last int) {
	if k.first == 0 || k.first >= len(args) {
		return 0, 0
	}
	last = k.last
	if last < 0 {
		last += len(args)
	}
	return k.first, min(last, len(args)-1)
}

// accessOf returns the permissions that a command needs for its keys. By the rules of Redis, a command that returns the
// value needs the permission to read, and one that inserts, deletes or updates keys needs the permission to write.
func accessOf(access string) (bits acl.Access) {
	for _, word := range strings.Fields(access) {
		switch word {
		case "access":
			bits |= acl.Read
		case "insert", "delete", "update":
			bits |= acl.Write
		}
	}
	return bits
}

// registry maps names to the commands of one listener profile.
type registry struct {
	all    []*command // top-level commands in the order of the table
	every  []*command // all commands and subcommands
	byName map[string]*command
}

const maxCommandName = 32

// commandNames returns the distinct names in a table. The index of a name is the id of the command. Rows with the same
// name, for different listener profiles, belong to one command.
func commandNames(table []command) (names []string) {
	for i := range table {
		if !slices.Contains(names, table[i].name) {
			names = append(names, table[i].name)
		}
	}
	return names
}

// newRegistry returns the registry of a listener profile. It panics if a row of the table is inconsistent.
func newRegistry(table []command, on profileSet) *registry {
	r := &registry{byName: make(map[string]*command, len(table))}
	names := commandNames(table)
	table = slices.Clone(table) // a copy, since newRegistry sets fields of the rows
	for i := range table {
		cmd := &table[i]
		if profilesOf(cmd)&on == 0 {
			continue
		}
		cmd.id = slices.Index(names, cmd.name)
		cmd.syntax = parseSyntax(cmd.args)
		cmd.keys.needs = accessOf(cmd.keys.access)
		r.every = append(r.every, cmd)
		if parent := cmd.container(); parent != "" {
			r.adopt(r.byName[parent], cmd)
			continue
		}
		if r.byName[cmd.name] != nil || len(cmd.name) > maxCommandName || cmd.arity == 0 {
			panic("server: command table: " + cmd.name)
		}
		r.byName[cmd.name] = cmd
		r.all = append(r.all, cmd)
	}
	for _, cmd := range r.all {
		if cmd.bySub == nil {
			cmd.upper = strings.ToUpper(cmd.name)
		}
	}
	for _, cmd := range r.every {
		if ways := countTrue(cmd.run != nil, cmd.parse != nil, cmd.refusal != ""); ways > 1 || ways == 0 && len(cmd.subs) == 0 || (cmd.parse == nil) != (cmd.reply == nil) {
			panic("server: command table: " + cmd.name + " must set refusal, or run, or both parse and reply")
		}
	}
	return r
}

func (r *registry) adopt(parent, sub *command) {
	if parent == nil {
		panic("server: command table: " + sub.name + " must follow the row of its container")
	}
	if parent.bySub == nil {
		parent.bySub = map[string]*command{}
	}
	parent.subs = append(parent.subs, sub)
	parent.bySub[strings.TrimPrefix(sub.name, parent.name+"|")] = sub
}

func countTrue(conditions ...bool) (n int) {
	for _, c := range conditions {
		if c {
			n++
		}
	}
	return n
}

// find returns the row of the command in args, or nil if there is no such command. If the first argument is a container
// and there is a second argument, find returns the row of the subcommand. The argument recent is nil or a row of r: if
// args contain that command again, find returns recent without a search.
func (r *registry) find(args [][]byte, recent *command) *command {
	if recent != nil && recent.isNamed(args[0]) {
		return recent
	}
	var buf [maxCommandName]byte
	cmd := r.byName[string(lower(buf[:0], args[0]))]
	if cmd == nil || cmd.bySub == nil || len(args) == 1 {
		return cmd
	}
	return cmd.bySub[string(lower(buf[:0], args[1]))]
}

// named returns the row of a full name such as "client|list", or nil. Case is ignored.
func (r *registry) named(name string) *command {
	container, sub, found := strings.Cut(strings.ToLower(name), "|")
	cmd := r.byName[container]
	if cmd == nil || !found {
		return cmd
	}
	return cmd.bySub[sub]
}

// lower appends b in lower case to dst. It appends nothing if b does not fit in the capacity of dst.
func lower(dst, b []byte) []byte {
	if len(b) > cap(dst) {
		return dst
	}
	for _, c := range b {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}
