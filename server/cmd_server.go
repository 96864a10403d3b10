package server

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/throttledhq/throttled/options"
)

func cmdTime(c *client, _ [][]byte) error {
	now := time.Now()
	c.out.Array(2)
	c.out.Text(strconv.FormatInt(now.Unix(), 10))
	c.out.Text(strconv.Itoa(now.Nanosecond() / 1000))
	return nil
}

func cmdConfigGet(c *client, args [][]byte) error {
	patterns := make([]string, 0, len(args)-2)
	for _, arg := range args[2:] {
		patterns = append(patterns, string(arg))
	}
	pairs := c.srv.opts.Match(patterns...)
	c.out.Map(len(pairs))
	for _, p := range pairs {
		c.out.Text(asAsked(p.Name, patterns))
		c.out.Text(p.Value)
	}
	return nil
}

// asAsked returns the name of an option, spelled with the same upper and lower case as in the request, since clients
// look up that spelling in the reply.
func asAsked(name string, patterns []string) string {
	for _, pattern := range patterns {
		if strings.EqualFold(pattern, name) {
			return pattern
		}
	}
	return name
}

func cmdConfigSet(c *client, args [][]byte) error {
	if len(args)%2 != 0 {
		return errSyntax
	}
	pairs := make([]options.Pair, 0, len(args)/2-1)
	for i := 2; i < len(args); i += 2 {
		pairs = append(pairs, options.Pair{Name: string(args[i]), Value: string(args[i+1])})
	}
	if err := c.srv.opts.Set(pairs); err != nil {
		return errConfigSet(err)
	}
	c.out.OK()
	return nil
}

// maxConfigError is the maximum length in bytes of the error text of an option in a reply. There is a limit because
// the error text may quote a long value.
const maxConfigError = 1024

// errConfigSet returns the reply for an error of options.Store.Set. The error texts of Set are those of Redis.
func errConfigSet(err error) replyError {
	if unknown := (*options.UnknownError)(nil); errors.As(err, &unknown) {
		err = &options.UnknownError{Name: unknown.Name[:min(len(unknown.Name), maxEcho)]}
	}
	return replyError("ERR " + echo([]byte(err.Error()), maxConfigError))
}

func cmdConfigResetStat(c *client, _ [][]byte) error {
	c.srv.stats.reset()
	c.srv.rules.counts.reset()
	c.srv.forward.Reset()
	c.srv.away.reset()
	c.srv.auth.reset()
	c.srv.users.denials.counts.reset()
	c.srv.clientMemory.evicted.Store(0)
	c.out.OK()
	return nil
}

func cmdConfigRewrite(c *client, _ [][]byte) error {
	if c.session.tx.running {
		return errRewriteMulti
	}
	if err := c.srv.opts.Rewrite(); errors.Is(err, options.ErrNoFile) {
		return errNoConfigFile
	} else if err != nil {
		return replyError("ERR " + err.Error())
	}
	c.srv.log.Info("configuration file rewritten", "file", c.srv.opts.File())
	c.out.OK()
	return nil
}

// cmdHelp implements the subcommand HELP of every command that has subcommands. The text is generated from the
// command table.
func cmdHelp(c *client, args [][]byte) error {
	container := c.commands.named(string(args[0]))
	lines := []string{strings.ToUpper(container.name) + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"}
	for _, sub := range container.subs {
		name := strings.ToUpper(strings.TrimPrefix(sub.name, container.name+"|"))
		lines = append(lines, strings.TrimSpace(name+" "+joinArguments(sub.syntax, " ")), "    "+sub.summary+".")
	}
	c.out.Array(len(lines))
	for _, line := range lines {
		c.out.Status(line)
	}
	return nil
}
