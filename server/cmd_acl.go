package server

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/resp"
)

func cmdACLWhoAmI(c *client, _ [][]byte) error {
	c.out.Text(c.session.user.Name())
	return nil
}

func cmdACLUsers(c *client, _ [][]byte) error {
	replyUsers(c, (*acl.User).Name)
	return nil
}

func cmdACLList(c *client, _ [][]byte) error {
	replyUsers(c, (*acl.User).Text)
	return nil
}

// replyUsers replies with a text for each user.
func replyUsers(c *client, text func(u *acl.User) string) {
	list := c.srv.currentUsers().Users()
	c.out.Array(len(list))
	for _, u := range list {
		c.out.Text(text(u))
	}
}

// cmdACLGetUser implements ACL GETUSER. The field domains follows those of Redis.
func cmdACLGetUser(c *client, args [][]byte) error {
	u := c.srv.currentUsers().Get(string(args[2]))
	if u == nil {
		c.out.Null()
		return nil
	}
	c.out.Map(7)
	c.out.Text("flags")
	replyNamed(&c.out, u.Flags(), (*resp.Reply).Set)
	c.out.Text("passwords")
	replyNamed(&c.out, u.Passwords(), (*resp.Reply).Array)
	for _, field := range [...][2]string{{"commands", u.Commands()}, {"keys", u.Keys()}, {"channels", u.Channels()}} {
		c.out.Text(field[0])
		c.out.Text(field[1])
	}
	c.out.Text("selectors")
	c.out.Array(0)
	c.out.Text("domains")
	c.out.Text(u.Domains())
	return nil
}

// replyNamed appends texts in an aggregate.
func replyNamed(out *resp.Reply, texts []string, aggregate func(out *resp.Reply, n int)) {
	aggregate(out, len(texts))
	for _, text := range texts {
		out.Text(text)
	}
}

// cmdACLCat implements ACL CAT [category].
func cmdACLCat(c *client, args [][]byte) error {
	switch len(args) {
	case 2:
		names := make([]string, len(categoryNames))
		for i, name := range categoryNames {
			names[i] = strings.TrimPrefix(name, "@")
		}
		replyTexts(&c.out, names)
		return nil
	case 3:
		list, ok := c.srv.users.catalog.InCategory(strings.ToLower(string(args[2])))
		if !ok {
			return replyError("ERR Unknown category '" + echo(args[2], maxEcho) + "'")
		}
		replyTexts(&c.out, list)
		return nil
	}
	return errSubcommand(args)
}

// cmdACLGenPass implements ACL GENPASS [bits].
func cmdACLGenPass(c *client, args [][]byte) error {
	bits := int64(256)
	if len(args) > 3 {
		return errSubcommand(args)
	}
	if len(args) == 3 {
		n, ok := resp.ParseInt(args[2])
		switch {
		case !ok:
			return errNotInteger
		case n < 1 || n > 4096:
			return errGenPass
		}
		bits = n
	}
	digits := int(bits+3) / 4
	random := make([]byte, (digits+1)/2)
	_, _ = rand.Read(random) // never fails
	c.out.Text(hex.EncodeToString(random)[:digits])
	return nil
}

// cmdACLSetUser implements ACL SETUSER.
func cmdACLSetUser(c *client, args [][]byte) error {
	if c.session.tx.running {
		return errUsersMulti
	}
	name, rules := string(args[2]), asStrings(args[3:])
	if err := acl.CheckName(name); err != nil {
		return replyError("ERR " + err.Error())
	}
	catalog := c.srv.users.catalog
	err := c.srv.changeUsers(func(set *acl.Set) (*acl.Set, error) {
		old := set.Get(name)
		if old == nil {
			old = acl.NewUser(name, catalog)
		}
		u, err := old.Apply(catalog, rules...)
		switch {
		case err != nil:
			return nil, err
		case set.Get(name) != nil && u.Same(old):
			return set, nil
		}
		return set.With(u), nil
	})
	if rule := new(acl.RuleError); errors.As(err, &rule) {
		return errRule(rule, args[3:])
	}
	if err == nil {
		c.srv.log.Info("a user was changed", "user", name, "by", c.session.user.Name(), "addr", c.addr())
		c.out.OK()
	}
	return err
}

// errRule returns the error of a rule. Like Redis, it repeats the rule, except for passwords.
func errRule(e *acl.RuleError, rules [][]byte) error {
	word := e.Word
	if errors.Is(e, acl.ErrSyntax) && e.Index < len(rules) {
		word = echo(rules[e.Index], maxEcho)
	}
	return replyError("ERR Error in ACL SETUSER modifier '" + echo([]byte(word), maxEcho) + "': " + e.Err.Error())
}

// loggedNames is the maximum number of deleted users that a log line names.
const loggedNames = 16

// cmdACLDelUser implements ACL DELUSER. The reply is the number of users that existed.
func cmdACLDelUser(c *client, args [][]byte) error {
	names := asStrings(args[2:])
	if c.session.tx.running {
		return errUsersMulti
	}
	if slices.Contains(names, acl.DefaultName) {
		return errDeleteDefault
	}
	var deleted []string
	err := c.srv.changeUsers(func(set *acl.Set) (*acl.Set, error) {
		if deleted = existing(set, names); len(deleted) == 0 {
			return set, nil
		}
		return set.Without(deleted...), nil
	})
	if err != nil {
		return err
	}
	if len(deleted) > 0 {
		c.srv.closeRevoked(c.srv.currentUsers())
		c.srv.log.Info("users were deleted", "users", len(deleted), "names", deleted[:min(len(deleted), loggedNames)], "by", c.session.user.Name(), "addr", c.addr())
	}
	c.out.Int(int64(len(deleted)))
	return nil
}

// existing returns those of the names that users in a set have, in order and each once.
func existing(set *acl.Set, names []string) []string {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	return slices.DeleteFunc(names, func(name string) bool { return set.Get(name) == nil })
}

// cmdACLDryRun implements ACL DRYRUN.
func cmdACLDryRun(c *client, args [][]byte) error {
	u := c.srv.currentUsers().Get(string(args[2]))
	if u == nil {
		return replyError("ERR User '" + echo(args[2], maxEcho) + "' not found")
	}
	call := args[3:]
	cmd := c.commands.find(call, nil)
	switch {
	case cmd == nil:
		return replyError("ERR Command '" + echo(call[0], maxEcho) + "' not found")
	case !cmd.arityFits(len(call)):
		return cmd.errArguments(call)
	}
	switch d := c.srv.examine(u, cmd, call); d.kind {
	case permitted:
		c.out.OK()
	case deniedArguments:
		return d.err
	default:
		c.out.Text(d.dryRun())
	}
	return nil
}
