package acl

import (
	"slices"
	"strings"
)

// allCommands is the category of all commands. It contains the commands of later versions too.
const allCommands = "@all"

// commandRules are the commands that a user may run.
type commandRules struct {
	all bool // every command, without a lookup
	// permitted has bit i set if the user may run the command with the id i.
	permitted []uint64
	// text lists the rules with their signs, such as "-@all", "+cl.throttle". Applied in order they result in permitted.
	// A rule that a later one overrides completely is left out.
	text []string
}

// noCommands are the rules of a new user.
func noCommands(c *Catalog) commandRules {
	r := commandRules{text: []string{"-" + allCommands}, permitted: make([]uint64, (len(c.commands)+63)/64)}
	for i := range c.commands {
		if c.commands[i].Always {
			r.put(i, true)
		}
	}
	return r
}

// everyCommand are the rules "+@all".
func everyCommand(c *Catalog) commandRules {
	r := commandRules{all: true, text: []string{"+" + allCommands}, permitted: make([]uint64, (len(c.commands)+63)/64)}
	for i := range c.commands {
		r.put(i, true)
	}
	return r
}

// put sets the bit of a command.
func (r *commandRules) put(id int, permitted bool) {
	if permitted {
		r.permitted[id/64] |= 1 << (id % 64)
	} else {
		r.permitted[id/64] &^= 1 << (id % 64)
	}
}

func (r *commandRules) permits(id int) bool {
	return r.all || r.permitted[id/64]&(1<<(id%64)) != 0
}

// apply returns a changed copy of the rules. The sign is '+' or '-', and name is in lower case.
func (r *commandRules) apply(c *Catalog, sign byte, name string) (commandRules, error) {
	switch {
	case name == allCommands && sign == '+':
		return everyCommand(c), nil
	case name == allCommands:
		return noCommands(c), nil
	}
	ids := c.scope(name)
	switch {
	case ids == nil && c.isFirstArgument(name):
		return commandRules{}, ErrFirstArgument
	case ids == nil:
		return commandRules{}, ErrUnknownCommand
	}
	changed := commandRules{permitted: slices.Clone(r.permitted), all: r.all && sign == '+'}
	for _, id := range ids {
		changed.put(id, sign == '+' || c.commands[id].Always)
	}
	for _, rule := range r.text {
		if !covers(name, rule[1:]) {
			changed.text = append(changed.text, rule)
		}
	}
	changed.text = append(changed.text, string(sign)+name)
	return changed, nil
}

// covers reports whether a rule for name replaces an earlier rule for earlier, because it has the same scope or a larger
// one.
func covers(name, earlier string) bool {
	return name == earlier || strings.HasPrefix(earlier, name+"|")
}

func (r *commandRules) String() string { return strings.Join(r.text, " ") }
