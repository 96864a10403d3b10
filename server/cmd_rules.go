package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/resp"
	"github.com/throttledhq/throttled/rules"
	"github.com/throttledhq/throttled/ruleset"
	"github.com/throttledhq/throttled/topology"
)

// versionsShown is the number of versions that CL.RULES HISTORY returns by default.
const versionsShown = 20

// rulesTimeout is the timeout of a command that changes the rules. It includes the time to compile the largest set on a
// busy machine: a set of 100,000 limits takes 2 s on an idle one. A node that forwarded the command waits longer than this.
const rulesTimeout = 30 * time.Second

// cmdRulesGet implements CL.RULES GET [version].
func cmdRulesGet(c *client, args [][]byte) error {
	number, err := optionalVersion(args)
	if err != nil {
		return err
	}
	live := c.srv.live
	if live == nil {
		return errNoRules
	}
	_, text, err := live.Text(number)
	if err != nil {
		return rulesError(err)
	}
	c.out.Verbatim(text)
	return nil
}

// optionalVersion returns the number of the version in the third argument, or 0 if there are two arguments.
func optionalVersion(args [][]byte) (uint64, error) {
	switch len(args) {
	case 2:
		return 0, nil
	case 3:
		return parseVersion(args[2])
	}
	return 0, errSubcommand(args)
}

// parseVersion parses the number of a version.
func parseVersion(arg []byte) (uint64, error) {
	n, ok := resp.ParseInt(arg)
	if !ok || n < 1 {
		return 0, errInvalid("version", arg, "an integer from 1, see CL.RULES HISTORY")
	}
	return uint64(n), nil
}

// cmdRulesList implements CL.RULES LIST.
func cmdRulesList(c *client, _ [][]byte) error {
	file, err := c.srv.activeFile()
	if err != nil {
		return err
	}
	c.out.Map(len(file.Domains))
	for i := range file.Domains {
		x := &file.Domains[i]
		c.out.Text(x.Name)
		c.out.Array(len(x.Limits))
		for j := range x.Limits {
			c.out.Text(x.Limits[j].Name)
		}
	}
	return nil
}

// activeFile returns the file of the active set.
func (s *Server) activeFile() (*rules.File, error) {
	if s.live == nil {
		return nil, errNoRules
	}
	a := s.live.Active()
	switch {
	case a.Err != nil:
		return nil, rulesError(a.Err)
	case a.Set == nil:
		return nil, errNoRules
	}
	return a.Set.File(), nil
}

// cmdRulesExplain implements CL.RULES EXPLAIN domain [name value]...
func cmdRulesExplain(c *client, args [][]byte) error {
	file, err := c.srv.activeFile()
	if err != nil {
		return err
	}
	x := file.Domain(string(args[2]))
	if x == nil {
		return errDomain(args[2], file.Names())
	}
	request, err := rules.AttributesOf(args[3:])
	if err != nil {
		return rulesError(err)
	}
	c.out.Verbatim(x.Describe(request, c.srv.rules.clock()))
	return nil
}

// cmdRulesHistory implements CL.RULES HISTORY [count].
func cmdRulesHistory(c *client, args [][]byte) error {
	count := int64(versionsShown)
	if len(args) > 3 {
		return errSubcommand(args)
	}
	if len(args) == 3 {
		n, ok := resp.ParseInt(args[2])
		if !ok || n < 1 {
			return errInvalid("count", args[2], "an integer from 1")
		}
		count = n
	}
	if c.srv.live == nil {
		return errNoRules
	}
	list := c.srv.live.History()
	list = list[:min(int64(len(list)), count)]
	c.out.Array(len(list))
	for i := range list {
		replyVersion(&c.out, &list[i])
	}
	return nil
}

// replyVersion replies with the description of a version.
func replyVersion(out *resp.Reply, v *ruleset.Version) {
	number := func(name string, n int) {
		out.Text(name)
		out.Int(int64(n))
	}
	text := func(name, value string) {
		out.Text(name)
		out.Text(value)
	}
	out.Map(7)
	number("version", int(v.Number))
	text("author", v.Author)
	text("time", v.Time.Format(time.RFC3339))
	text("hash", v.Hash)
	number("bytes", v.Size)
	number("limits", v.Limits)
	text("changes", v.Summary)
}

// cmdRulesSet implements CL.RULES SET text [BASE version] [AUTHOR name].
func cmdRulesSet(c *client, args [][]byte) error {
	return c.changeRules(args, func(ctx context.Context, o rulesOptions) (ruleset.Result, error) {
		return c.srv.live.Set(ctx, string(args[2]), o.author, o.base)
	})
}

// cmdRulesPatch implements CL.RULES PATCH patch [BASE version] [AUTHOR name].
func cmdRulesPatch(c *client, args [][]byte) error {
	return c.changeRules(args, func(ctx context.Context, o rulesOptions) (ruleset.Result, error) {
		return c.srv.live.Patch(ctx, string(args[2]), o.author, o.base)
	})
}

// cmdRulesRollback implements CL.RULES ROLLBACK version [BASE version] [AUTHOR name].
func cmdRulesRollback(c *client, args [][]byte) error {
	number, err := parseVersion(args[2])
	if err != nil {
		return err
	}
	return c.changeRules(args, func(ctx context.Context, o rulesOptions) (ruleset.Result, error) {
		if o.base == nil {
			return c.srv.live.Rollback(ctx, number, o.author)
		}
		_, text, err := c.srv.live.Text(number)
		if err != nil {
			return ruleset.Result{}, err
		}
		return c.srv.live.Set(ctx, text, o.author, o.base)
	})
}

// rulesOptions is the options of a command that changes the rules.
type rulesOptions struct {
	base   *uint64 // nil if not given
	author string
}

// changeRules calls the function change with the options after the third argument, and replies with the result.
func (c *client) changeRules(args [][]byte, change func(context.Context, rulesOptions) (ruleset.Result, error)) error {
	o, err := parseRulesOptions(args)
	if err != nil {
		return err
	}
	if o.author == "" {
		o.author = c.author()
	}
	if c.srv.live == nil {
		return errNoRules
	}
	ctx, cancel := context.WithTimeout(context.Background(), rulesTimeout)
	defer cancel()
	result, err := change(ctx, o)
	if err != nil {
		return rulesError(err)
	}
	c.out.Map(3)
	c.out.Text("version")
	c.out.Int(int64(result.Version.Number))
	c.out.Text("changed")
	c.out.Int(int64(countTrue(result.Changed)))
	c.out.Text("changes")
	if !result.Changed {
		c.out.Text("")
		return nil
	}
	c.srv.log.Info("the rules have been changed", "version", result.Version.Number, "author", result.Version.Author, "changes", result.Version.Summary)
	c.out.Text(result.Version.Summary)
	return nil
}

// parseRulesOptions parses BASE and AUTHOR after the third argument.
func parseRulesOptions(args [][]byte) (o rulesOptions, err error) {
	for i := 3; i < len(args); i += 2 {
		isBase := spells(args[i], "base")
		switch {
		case !isBase && !spells(args[i], "author"):
			return o, errRulesOption(args[i])
		case i+1 == len(args):
			return o, replyError("ERR option " + quote(args[i]) + " needs a value")
		case isBase && o.base != nil, !isBase && o.author != "":
			return o, replyError("ERR option " + quote(args[i]) + " is given twice")
		}
		if err := o.set(isBase, args[i+1]); err != nil {
			return o, err
		}
	}
	return o, nil
}

// set sets BASE or AUTHOR.
func (o *rulesOptions) set(isBase bool, value []byte) error {
	if !isBase {
		if len(value) == 0 {
			return errInvalid("author", value, "a name with at least one character")
		}
		o.author = echo(value, maxEcho)
		return nil
	}
	n, ok := resp.ParseInt(value)
	if !ok || n < 0 {
		return errInvalid("base", value, "the number of a version, or 0 if there are no rules")
	}
	base := uint64(n)
	o.base = &base
	return nil
}

// author returns the name and the address of the client.
func (c *client) author() string {
	addr := c.addr().String()
	if name := c.pipe.session.currentInfo().name; name != "" {
		return name + " at " + addr
	}
	return addr
}

// argsForLeader returns the arguments of a command that is forwarded to the leader. A change of the rules without an author
// gets the client as its author, because the leader receives the command from this node, not from the client.
func (c *client) argsForLeader(cmd *command, args [][]byte) [][]byte {
	switch {
	case cmd.leases && !c.srv.isSidecar(): // an upstream takes the user of the sidecar
		return c.userForLeader(args)
	case !cmd.changesRules():
		return args
	}
	if o, err := parseRulesOptions(args); err != nil || o.author != "" {
		return args // the leader returns the error
	}
	author := c.author() + " of node " + c.srv.cluster.View().Self
	return slices.Concat(args, [][]byte{[]byte("AUTHOR"), []byte(author)})
}

// maxRulesErrors is the number of problems in a rule set that an error reply contains.
const maxRulesErrors = 3

// rulesError returns the reply for an error of the rules. A reply has one line.
func rulesError(err error) error {
	reply, known := asReply(err)
	switch {
	case errors.Is(err, topology.ErrNoLeader):
		return limiter.ErrNotLeading // a different node may lead by now: the command is forwarded to it
	case known:
		return reply
	}
	return replyError("ERR " + problemText(err))
}

// problemText returns the text of an error in one line. Of the problems of a rule set, it has the first ones.
func problemText(err error) string {
	var list rules.Errors
	switch {
	case err == nil:
		return ""
	case errors.As(err, &list):
		return oneLine(strings.TrimSuffix(err.Error(), list.Error())) + joinErrors(list) // errors that wrap a list end with it
	}
	return oneLine(err.Error())
}

// joinErrors returns the first problems, and the number of the others.
func joinErrors(list rules.Errors) string {
	var texts []string
	for _, e := range list[:min(len(list), maxRulesErrors)] {
		texts = append(texts, oneLine(e.Error()))
	}
	text := strings.Join(texts, " | ")
	if more := len(list) - len(texts); more > 0 {
		text += fmt.Sprintf(" | and %d more", more)
	}
	return text
}

// oneLine replaces line ends by spaces.
func oneLine(text string) string { return strings.NewReplacer("\r", " ", "\n", " ").Replace(text) }
