package server

import (
	"strings"

	"github.com/throttledhq/throttled/internal/glob"
	"github.com/throttledhq/throttled/resp"
)

// cmdCommand replies with the descriptions of all commands.
func cmdCommand(c *client, _ [][]byte) error {
	c.out.Array(len(c.commands.all))
	for _, cmd := range c.commands.all {
		replyCommand(&c.out, cmd)
	}
	return nil
}

func cmdCommandCount(c *client, _ [][]byte) error {
	c.out.Int(int64(len(c.commands.all)))
	return nil
}

func cmdCommandInfo(c *client, args [][]byte) error {
	if len(args) == 2 {
		return cmdCommand(c, nil)
	}
	c.out.Array(len(args) - 2)
	for _, name := range args[2:] {
		if cmd := c.commands.named(string(name)); cmd != nil {
			replyCommand(&c.out, cmd)
		} else {
			c.out.Null()
		}
	}
	return nil
}

// replyCommand appends the description of a command: ten elements, as in Redis 7.
func replyCommand(out *resp.Reply, cmd *command) {
	out.Array(10)
	out.Text(cmd.name)
	out.Int(int64(cmd.arity))
	replyNames(out, flagNames, uint32(cmd.flags))
	out.Int(int64(cmd.keys.first))
	out.Int(int64(cmd.keys.last))
	out.Int(int64(cmd.keys.step))
	replyNames(out, categoryNames, uint32(cmd.categories()))
	tips := strings.Fields(cmd.tips)
	out.Set(len(tips))
	for _, tip := range tips {
		out.Text(tip)
	}
	replyKeySpecs(out, cmd)
	out.Set(len(cmd.subs))
	for _, sub := range cmd.subs {
		replyCommand(out, sub)
	}
}

// replyNames appends the names of the bits that are set in bits.
func replyNames(out *resp.Reply, names []string, bits uint32) {
	var list []string
	for i, name := range names {
		if bits&(1<<i) != 0 {
			list = append(list, name)
		}
	}
	out.Set(len(list))
	for _, name := range list {
		out.Status(name)
	}
}

// replyKeySpecs appends the key specifications of a command. The first has the begin_search type "index" and the
// find_keys type "range". If the positions of the keys depend on the arguments, a second specification follows, with
// the type "unknown" in both parts.
func replyKeySpecs(out *resp.Reply, cmd *command) {
	k := cmd.keys
	if k.first == 0 {
		out.Set(0)
		return
	}
	out.Set(1 + countTrue(cmd.is(movableKeys)))
	last := k.last
	if last > 0 {
		last -= k.first // relative to the first key
	}
	replyKeySpec(out, k.access,
		spec{"index", []specField{{"index", k.first}}},
		spec{"range", []specField{{"lastkey", last}, {"keystep", k.step}, {"limit", 0}}})
	if cmd.is(movableKeys) {
		replyKeySpec(out, k.access+" incomplete", spec{kind: "unknown"}, spec{kind: "unknown"})
	}
}

func replyKeySpec(out *resp.Reply, access string, beginSearch, findKeys spec) {
	out.Map(3)
	out.Text("flags")
	replyAccess(out, access)
	out.Text("begin_search")
	replySpec(out, beginSearch)
	out.Text("find_keys")
	replySpec(out, findKeys)
}

// replyAccess appends the access flags of a key.
func replyAccess(out *resp.Reply, access string) {
	words := strings.Fields(access)
	out.Set(len(words))
	for _, w := range words {
		out.Status(w)
	}
}

// spec is the begin_search or find_keys part of a key specification.
type spec struct {
	kind   string
	fields []specField
}

type specField struct {
	name  string
	value int
}

func replySpec(out *resp.Reply, s spec) {
	out.Map(2)
	out.Text("type")
	out.Text(s.kind)
	out.Text("spec")
	out.Map(len(s.fields))
	for _, f := range s.fields {
		out.Text(f.name)
		out.Int(int64(f.value))
	}
}

func cmdCommandDocs(c *client, args [][]byte) error {
	list := c.commands.all
	if len(args) > 2 {
		list = nil
		for _, name := range args[2:] {
			if cmd := c.commands.named(string(name)); cmd != nil {
				list = append(list, cmd)
			}
		}
	}
	c.out.Map(len(list))
	for _, cmd := range list {
		replyDocs(&c.out, cmd)
	}
	return nil
}

func replyDocs(out *resp.Reply, cmd *command) {
	cost := cmd.cost
	if cost == "" {
		cost = "O(1)"
	}
	texts := [][2]string{{"summary", cmd.summary}, {"since", cmd.since}, {"group", cmd.group}, {"complexity", cost}}
	if cmd.group == groupLimiter {
		texts = append(texts, [2]string{"module", moduleName})
	}
	fields := len(texts)
	if len(cmd.syntax) > 0 {
		fields++
	}
	if len(cmd.subs) > 0 {
		fields++
	}
	out.Text(cmd.name)
	out.Map(fields)
	for _, t := range texts {
		out.Text(t[0])
		out.Text(t[1])
	}
	if len(cmd.syntax) > 0 {
		out.Text("arguments")
		replyArguments(out, cmd.syntax)
	}
	if len(cmd.subs) > 0 {
		out.Text("subcommands")
		out.Map(len(cmd.subs))
		for _, sub := range cmd.subs {
			replyDocs(out, sub)
		}
	}
}

// moduleName is the module that COMMAND DOCS and COMMAND LIST report for the limiter commands.
const moduleName = "throttled"

func replyArguments(out *resp.Reply, list []argument) {
	out.Array(len(list))
	for _, a := range list {
		replyArgument(out, a)
	}
}

func replyArgument(out *resp.Reply, a argument) {
	var flags []string
	if a.optional {
		flags = append(flags, "optional")
	}
	if a.multiple {
		flags = append(flags, "multiple")
	}
	out.Map(2 + countTrue(a.kind == "key", a.token != "", len(flags) > 0, len(a.parts) > 0))
	out.Text("name")
	out.Text(a.name)
	out.Text("type")
	out.Text(a.kind)
	if a.kind == "key" {
		out.Text("key_spec_index")
		out.Int(0)
	}
	if a.token != "" {
		out.Text("token")
		out.Text(a.token)
	}
	if len(flags) > 0 {
		out.Text("flags")
		out.Set(len(flags))
		for _, f := range flags {
			out.Status(f)
		}
	}
	if len(a.parts) > 0 {
		out.Text("arguments")
		replyArguments(out, a.parts)
	}
}

// cmdCommandList replies with the names of all commands without their subcommands. With FILTERBY, it replies with the
// names of the commands and subcommands that match.
func cmdCommandList(c *client, args [][]byte) error {
	keep := func(*command) bool { return true }
	if len(args) > 2 {
		if len(args) != 5 || !isOneOf(args[2], "filterby") {
			return errSyntax
		}
		value := strings.ToLower(string(args[4]))
		switch strings.ToLower(string(args[3])) {
		case "module":
			keep = func(cmd *command) bool { return cmd.group == groupLimiter && value == moduleName }
		case "aclcat":
			keep = func(cmd *command) bool { return cmd.isIn("@" + value) }
		case "pattern":
			keep = func(cmd *command) bool { return glob.MatchFold(value, cmd.name) }
		default:
			return errSyntax
		}
	}
	var names []string
	for _, cmd := range c.commands.every {
		if keep(cmd) && (cmd.container() == "" || len(args) > 2) {
			names = append(names, cmd.name)
		}
	}
	if len(args) > 2 {
		c.out.Array(len(names)) // an array with FILTERBY and a set without, as in Redis
	} else {
		c.out.Set(len(names))
	}
	for _, name := range names {
		c.out.Text(name)
	}
	return nil
}

func (cmd *command) isIn(category string) bool {
	for i, name := range categoryNames {
		if name == category {
			return cmd.categories()&(1<<i) != 0
		}
	}
	return false
}

func cmdCommandGetKeys(c *client, args [][]byte) error {
	_, keys, err := c.commands.keysIn(args[2:])
	if err != nil {
		return err
	}
	c.out.Array(len(keys))
	for _, key := range keys {
		c.out.Bulk(key)
	}
	return nil
}

func cmdCommandGetKeysAndFlags(c *client, args [][]byte) error {
	cmd, keys, err := c.commands.keysIn(args[2:])
	if err != nil {
		return err
	}
	c.out.Array(len(keys))
	for _, key := range keys {
		c.out.Array(2)
		c.out.Bulk(key)
		replyAccess(&c.out, cmd.keys.access)
	}
	return nil
}

// keysIn returns the table row and the keys of the command in args.
func (r *registry) keysIn(args [][]byte) (*command, [][]byte, error) {
	cmd := r.find(args, nil)
	switch {
	case cmd == nil:
		return nil, nil, errBadCommand
	case cmd.keys.first == 0:
		return nil, nil, errNoKeys
	case !cmd.arityFits(len(args)):
		return nil, nil, errBadArity
	}
	if cmd.is(movableKeys) {
		keys, err := cmd.movedKeys(args)
		return cmd, keys, err
	}
	return cmd, cmd.keysOf(args), nil
}

// movedKeys parses a command with movable keys, and returns its keys. The caller has checked the arity.
func (cmd *command) movedKeys(args [][]byte) (keys [][]byte, err error) {
	p := parsing{logEntries: 1}
	if err := cmd.parse(&p, args); err != nil {
		return nil, errBadArguments
	}
	for _, req := range p.reqs {
		keys = append(keys, req.Key)
	}
	return keys, nil
}
