package server

import (
	"strings"

	"github.com/throttledhq/throttled/internal/glob"
)

// cmdCommand describes all commands.
func cmdCommand(c *client, _ [][]byte) error {
	c.out.Array(len(c.commands.all))
	for _, cmd := range c.commands.all {
		c.replyCommand(cmd)
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
			c.replyCommand(cmd)
		} else {
			c.out.Null()
		}
	}
	return nil
}

// replyCommand appends the description of a command: ten elements, as in Redis 7.
func (c *client) replyCommand(cmd *command) {
	c.out.Array(10)
	c.out.Text(cmd.name)
	c.out.Int(int64(cmd.arity))
	c.replyNames(flagNames, uint32(cmd.flags))
	c.out.Int(int64(cmd.keys.first))
	c.out.Int(int64(cmd.keys.last))
	c.out.Int(int64(cmd.keys.step))
	c.replyNames(categoryNames, uint32(cmd.categories()))
	tips := strings.Fields(cmd.tips)
	c.out.Set(len(tips))
	for _, tip := range tips {
		c.out.Text(tip)
	}
	c.replyKeySpecs(cmd)
	c.out.Set(len(cmd.subs))
	for _, sub := range cmd.subs {
		c.replyCommand(sub)
	}
}

// replyNames appends the names of the bits that are set.
func (c *client) replyNames(names []string, bits uint32) {
	var list []string
	for i, name := range names {
		if bits&(1<<i) != 0 {
			list = append(list, name)
		}
	}
	c.out.Set(len(list))
	for _, name := range list {
		c.out.Status(name)
	}
}

// replyKeySpecs appends the key specifications: one of the kind "index" with a range, and for movable
// keys a second one of the kind "unknown".
func (c *client) replyKeySpecs(cmd *command) {
	k := cmd.keys
	if k.first == 0 {
		c.out.Set(0)
		return
	}
	c.out.Set(1 + countTrue(cmd.is(movableKeys)))
	last := k.last
	if last > 0 {
		last -= k.first // relative to the first key
	}
	c.replyKeySpec(k.access,
		spec{"index", []specField{{"index", k.first}}},
		spec{"range", []specField{{"lastkey", last}, {"keystep", k.step}, {"limit", 0}}})
	if cmd.is(movableKeys) {
		c.replyKeySpec(k.access+" incomplete", spec{kind: "unknown"}, spec{kind: "unknown"})
	}
}

func (c *client) replyKeySpec(access string, beginSearch, findKeys spec) {
	c.out.Map(3)
	c.out.Text("flags")
	c.replyAccess(access)
	c.out.Text("begin_search")
	c.replySpec(beginSearch)
	c.out.Text("find_keys")
	c.replySpec(findKeys)
}

// replyAccess appends the access flags of a key.
func (c *client) replyAccess(access string) {
	words := strings.Fields(access)
	c.out.Set(len(words))
	for _, w := range words {
		c.out.Status(w)
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

func (c *client) replySpec(s spec) {
	c.out.Map(2)
	c.out.Text("type")
	c.out.Text(s.kind)
	c.out.Text("spec")
	c.out.Map(len(s.fields))
	for _, f := range s.fields {
		c.out.Text(f.name)
		c.out.Int(int64(f.value))
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
		c.replyDocs(cmd)
	}
	return nil
}

func (c *client) replyDocs(cmd *command) {
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
	c.out.Text(cmd.name)
	c.out.Map(fields)
	for _, t := range texts {
		c.out.Text(t[0])
		c.out.Text(t[1])
	}
	if len(cmd.syntax) > 0 {
		c.out.Text("arguments")
		c.replyArguments(cmd, cmd.syntax)
	}
	if len(cmd.subs) > 0 {
		c.out.Text("subcommands")
		c.out.Map(len(cmd.subs))
		for _, sub := range cmd.subs {
			c.replyDocs(sub)
		}
	}
}

// moduleName is the name of the module that the limiter commands report.
const moduleName = "throttled"

func (c *client) replyArguments(cmd *command, list []argument) {
	c.out.Array(len(list))
	for _, a := range list {
		c.replyArgument(cmd, a)
	}
}

func (c *client) replyArgument(cmd *command, a argument) {
	var flags []string
	if a.optional {
		flags = append(flags, "optional")
	}
	if a.multiple {
		flags = append(flags, "multiple")
	}
	c.out.Map(2 + countTrue(a.kind == "key", a.token != "", len(flags) > 0, len(a.parts) > 0))
	c.out.Text("name")
	c.out.Text(a.name)
	c.out.Text("type")
	c.out.Text(a.kind)
	if a.kind == "key" {
		c.out.Text("key_spec_index")
		c.out.Int(0)
	}
	if a.token != "" {
		c.out.Text("token")
		c.out.Text(a.token)
	}
	if len(flags) > 0 {
		c.out.Text("flags")
		c.out.Set(len(flags))
		for _, f := range flags {
			c.out.Status(f)
		}
	}
	if len(a.parts) > 0 {
		c.out.Text("arguments")
		c.replyArguments(cmd, a.parts)
	}
}

// cmdCommandList returns the names of all commands, or of those that match FILTERBY.
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
	_, keys, err := c.keysIn(args[2:])
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
	cmd, keys, err := c.keysIn(args[2:])
	if err != nil {
		return err
	}
	c.out.Array(len(keys))
	for _, key := range keys {
		c.out.Array(2)
		c.out.Bulk(key)
		c.replyAccess(cmd.keys.access)
	}
	return nil
}

// keysIn returns the row and the keys of the command in args.
func (c *client) keysIn(args [][]byte) (*command, [][]byte, error) {
	cmd := c.commands.find(args)
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

// movedKeys parses a command with movable keys and returns its keys. The arity has been checked.
func (cmd *command) movedKeys(args [][]byte) (keys [][]byte, err error) {
	reqs, _, err := cmd.parse(nil, args, 1)
	if err != nil {
		return nil, errBadArguments
	}
	for _, req := range reqs {
		keys = append(keys, req.Key)
	}
	return keys, nil
}
