package server

import (
	"slices"
	"strings"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// flags are the properties of a command by which it is admitted or refused. Their
// names and their order are Redis's.
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
	movableKeys // where the keys are, only parsing tells
)

var flagNames = []string{
	"write", "readonly", "denyoom", "admin", "pubsub", "noscript", "loading", "stale",
	"skip_monitor", "skip_slowlog", "fast", "no_auth", "no_async_loading", "no_multi", "allow_busy", "movablekeys",
}

// categories are what Redis's ACLs group commands by. Most follow from a command's
// flags and group.
type categories uint32

const (
	catKeyspace categories = 1 << iota
	catRead
	catWrite
	catPubsub
	catAdmin
	catFast
	catSlow
	catDangerous
	catConnection
	catTransaction
	catScripting
)

var categoryNames = []string{
	"@keyspace", "@read", "@write", "@pubsub", "@admin", "@fast", "@slow",
	"@dangerous", "@connection", "@transaction", "@scripting",
}

// The groups under which Redis's documentation lists commands, and the one for ours.
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

// keySpec says which arguments are keys, and what is done with them. A zero first means none.
type keySpec struct {
	first, last, step int
	access            string
}

var (
	oneKey    = keySpec{first: 1, last: 1, step: 1, access: "RO"}
	manyKeys  = keySpec{first: 1, last: -1, step: 1, access: "RO"}
	secondKey = keySpec{first: 2, last: 2, step: 1, access: "RO"}
	specKey   = keySpec{first: 3, last: 3, step: 1, access: "RO"} // of the first limit of CL.ALL
)

func (k keySpec) does(access string) keySpec {
	k.access = access
	return k
}

// parseFunc appends the requests of a limiter command to dst, all Linked but the last, and returns the unit of times in
// the reply. Their keys lie in args, whose number has been checked. logEntries is the option window-log-max-entries, at
// least 1. With an error it returns dst as it was.
type parseFunc func(dst []limiter.Request, args [][]byte, logEntries int64) ([]limiter.Request, time.Duration, error)

// command is a row of the command table.
type command struct {
	name    string // lower case; a subcommand is named "container|sub"
	arity   int    // arguments including the name; -n: at least n
	flags   flags
	extra   categories // those that do not follow from flags and group
	keys    keySpec
	tips    string // Redis's hints for clients, separated by spaces
	group   string
	since   string
	cost    string // complexity; "" is O(1)
	summary string
	args    string // the arguments behind the name, in the notation of syntax.go
	faces   faceSet
	// leader says that only the leader can run it, as it can all that touches keys.
	leader bool
	// forwarded says that nodes send it to the leader for their clients, besides all that needs the leader.
	forwarded bool
	// ownStream says that the leader is asked for it over a stream that only the client uses.
	ownStream bool
	// long says that its reply may take megabytes, so that few of them are made at a time.
	long bool

	// What it does: refusal, run, or, for a limiter command, parse and reply; nothing for a mere
	// container of subcommands.

	// refusal is the error that answers the command wherever it is sent; "" for one that runs.
	refusal replyError
	run     func(c *client, args [][]byte) error
	parse   parseFunc
	// reply answers with the decisions on these requests, none of which is an error.
	reply func(c *client, unit time.Duration, reqs []limiter.Request, out []limiter.Decision)

	// Derived by newRegistry.
	id     int // the same for all rows of its name
	subs   []*command
	bySub  map[string]*command
	syntax []argument
}

func (cmd *command) is(f flags) bool { return cmd.flags&f != 0 }

// touchesKeys reports whether what a command answers, or does, depends on the keyspace.
func (cmd *command) touchesKeys() bool {
	return cmd.flags&(write|readonly) != 0 || cmd.keys.first > 0
}

// needsLeader reports whether a command is to run on the leader only.
func (cmd *command) needsLeader() bool { return cmd.leader || cmd.touchesKeys() }

// isForwarded reports whether nodes send a command to the leader for their clients. A node accepts no other
// from a node.
func (cmd *command) isForwarded() bool { return cmd.forwarded || cmd.needsLeader() }

func (cmd *command) arityFits(n int) bool {
	return n == cmd.arity || cmd.arity < 0 && n >= -cmd.arity
}

// container returns the name of the command that cmd is a subcommand of, or "".
func (cmd *command) container() string {
	container, _, found := strings.Cut(cmd.name, "|")
	if !found {
		return ""
	}
	return container
}

// categories returns the ACL categories by Redis's rules.
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

// keysOf returns the arguments that are keys, of a command with movable keys the first of
// them. The arity has been checked.
func (cmd *command) keysOf(args [][]byte) [][]byte {
	k := cmd.keys
	if k.first == 0 || k.first >= len(args) {
		return nil
	}
	last := k.last
	if last < 0 {
		last += len(args)
	}
	var keys [][]byte
	for i := k.first; i <= last && i < len(args); i += k.step {
		keys = append(keys, args[i])
	}
	return keys
}

// registry finds the commands of one face by name.
type registry struct {
	all    []*command // top-level commands in the order of the table
	every  []*command // subcommands too
	byName map[string]*command
}

const maxCommandName = 32

// commandNames returns the names in a table. The place of each is its id: a command that has a
// row for each of several faces is one command.
func commandNames(table []command) (names []string) {
	for i := range table {
		if !slices.Contains(names, table[i].name) {
			names = append(names, table[i].name)
		}
	}
	return names
}

// newRegistry derives all that follows from those rows of the table that are for a face. It
// panics on one that contradicts itself or another.
func newRegistry(table []command, on faceSet) *registry {
	r := &registry{byName: make(map[string]*command, len(table))}
	names := commandNames(table)
	table = slices.Clone(table) // of which each face has its own
	for i := range table {
		cmd := &table[i]
		if facesOf(cmd)&on == 0 {
			continue
		}
		cmd.id = slices.Index(names, cmd.name)
		cmd.syntax = parseSyntax(cmd.args)
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
	for _, cmd := range r.every {
		if ways := countTrue(cmd.run != nil, cmd.parse != nil, cmd.refusal != ""); ways > 1 || ways == 0 && len(cmd.subs) == 0 || (cmd.parse == nil) != (cmd.reply == nil) {
			panic("server: command table: " + cmd.name + " has no way to run, or two")
		}
	}
	return r
}

func (r *registry) adopt(parent, sub *command) {
	if parent == nil {
		panic("server: command table: " + sub.name + " stands before its container")
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

// find returns the row that args ask for: a subcommand where the first argument is a
// container of them and there is a second. It returns nil where there is none.
func (r *registry) find(args [][]byte) *command {
	var buf [maxCommandName]byte
	cmd := r.byName[string(lower(buf[:0], args[0]))]
	if cmd == nil || cmd.bySub == nil || len(args) == 1 {
		return cmd
	}
	return cmd.bySub[string(lower(buf[:0], args[1]))]
}

// named returns the row of a full name, in any case.
func (r *registry) named(name string) *command {
	container, sub, found := strings.Cut(strings.ToLower(name), "|")
	cmd := r.byName[container]
	if cmd == nil || !found {
		return cmd
	}
	return cmd.bySub[sub]
}

// lower appends the lower-case form of b to dst, or nothing if b is too long for a name.
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
