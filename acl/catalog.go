package acl

import "strings"

// Command is a command or subcommand that rules can name.
type Command struct {
	Name       string // lower case; a subcommand is named "container|sub"
	Categories uint64 // bit i is set if the command is in category i of the catalog
	// Always marks a command that every user may run, such as AUTH.
	Always bool
}

// Catalog lists the commands and categories that rules can name. It is immutable.
type Catalog struct {
	commands   []Command
	categories []string
	byName     map[string]int
}

// NewCatalog returns a catalog. The names of categories have no "@". The index of a command in commands is the id that
// User.MayRun expects.
func NewCatalog(categories []string, commands []Command) *Catalog {
	c := &Catalog{commands: commands, categories: categories, byName: make(map[string]int, len(commands))}
	for i := range commands {
		c.byName[commands[i].Name] = i
	}
	return c
}

// ID returns the id of a command, which User.MayRun expects. The name is in lower case.
func (c *Catalog) ID(name string) (id int, ok bool) {
	id, ok = c.byName[name]
	return id, ok
}

// category returns the bit of a category, or 0 if there is no such category.
func (c *Catalog) category(name string) uint64 {
	for i, known := range c.categories {
		if known == name {
			return 1 << i
		}
	}
	return 0
}

// scope returns the ids of the commands that a rule names, without its sign: "@category", a command with its
// subcommands, or a subcommand. It returns nil if the catalog has no such category or command. Names are in lower case.
func (c *Catalog) scope(name string) []int {
	if category, ok := strings.CutPrefix(name, "@"); ok {
		return c.inCategory(c.category(category))
	}
	id, known := c.byName[name]
	if !known {
		return nil
	}
	ids := []int{id}
	for i := range c.commands {
		if strings.HasPrefix(c.commands[i].Name, name+"|") {
			ids = append(ids, i)
		}
	}
	return ids
}

// isFirstArgument reports whether a name such as "select|0" begins with a command that has no subcommands. In Redis, such a
// rule applies to calls with this first argument.
func (c *Catalog) isFirstArgument(name string) bool {
	end := strings.LastIndexByte(name, '|')
	return end > 0 && len(c.scope(name[:end])) == 1
}

// inCategory returns the ids of the commands in a category. It returns nil only if bit is 0.
func (c *Catalog) inCategory(bit uint64) []int {
	if bit == 0 {
		return nil
	}
	ids := []int{}
	for i := range c.commands {
		if c.commands[i].Categories&bit != 0 {
			ids = append(ids, i)
		}
	}
	return ids
}

// names returns the names of all commands and categories, as rules write them after the sign.
func (c *Catalog) names() []string {
	list := make([]string, 0, len(c.commands)+len(c.categories))
	for i := range c.commands {
		list = append(list, c.commands[i].Name)
	}
	for _, name := range c.categories {
		list = append(list, "@"+name)
	}
	return list
}

// InCategory returns the names of the commands in a category, whose name has no "@". It returns false if there is no such
// category.
func (c *Catalog) InCategory(category string) ([]string, bool) {
	ids := c.inCategory(c.category(category))
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = c.commands[id].Name
	}
	return names, ids != nil
}
