package server

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/throttledhq/throttled/resp"
)

// aclLogMerge is the maximum age of an entry that is counted again instead of a new one, as in Redis.
const aclLogMerge = 60 * time.Second

// aclLog holds the latest denials, for ACL LOG. The last is the newest.
type aclLog struct {
	counts denialCounts

	mu      sync.Mutex
	entries []aclEntry
}

// aclEntry is one or several equal denials.
type aclEntry struct {
	aclKey
	count  int64
	at     time.Time // of the last denial
	client string    // the client of the last denial, as CLIENT LIST shows it
}

// aclKey contains the fields that equal denials have in common.
type aclKey struct {
	kind    denialKind
	context aclContext
	object  string
	user    string
}

// aclContext is the context in which a command was refused, as Redis names it.
type aclContext string

const (
	inToplevel aclContext = "toplevel"
	inMulti    aclContext = "multi"
)

// recordDenial adds a denial to the log.
func (c *client) recordDenial(d denial, context aclContext, user string) {
	l := &c.srv.users.denials
	l.counts[d.kind].Add(1)
	l.add(aclEntry{aclKey{d.kind, context, bounded(d.object), bounded(user)}, 1, time.Now(), c.describe()}, c.srv.opts.Get().ACLLogMaxLen)
}

// bounded returns a copy of the beginning of a text.
func bounded(text string) string { return strings.Clone(text[:min(len(text), maxEcho)]) }

// add adds an entry, or counts a recent equal entry again. The entry is then the newest. At most limit entries are kept.
func (l *aclLog) add(e aclEntry, limit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.entries {
		if old := &l.entries[i]; old.aclKey == e.aclKey && e.at.Sub(old.at) <= aclLogMerge {
			e.count += old.count
			l.entries = append(l.entries[:i], l.entries[i+1:]...)
			break
		}
	}
	l.entries = append(l.entries, e)
	l.entries = slices.Delete(l.entries, 0, max(0, len(l.entries)-limit))
}

// newest returns at most n entries, newest first.
func (l *aclLog) newest(n int64) []aclEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = min(max(n, 0), int64(len(l.entries)))
	list := make([]aclEntry, n)
	for i := range list {
		list[i] = l.entries[len(l.entries)-1-i]
	}
	return list
}

func (l *aclLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = nil
}

// aclLogDefault is the default number of entries of ACL LOG.
const aclLogDefault = 10

// cmdACLLog implements ACL LOG [count|RESET].
func cmdACLLog(c *client, args [][]byte) error {
	n := int64(aclLogDefault)
	switch {
	case len(args) > 3:
		return errSubcommand(args)
	case len(args) == 3 && isOneOf(args[2], "reset"):
		c.srv.users.denials.reset()
		c.out.OK()
		return nil
	case len(args) == 3:
		count, ok := resp.ParseInt(args[2])
		if !ok {
			return errNotInteger
		}
		n = count
	}
	list, now := c.srv.users.denials.newest(n), time.Now()
	c.out.Array(len(list))
	for i := range list {
		list[i].reply(&c.out, now)
	}
	return nil
}

// reply appends the fields of an entry.
func (e *aclEntry) reply(out *resp.Reply, now time.Time) {
	out.Map(7)
	out.Text("count")
	out.Int(e.count)
	for _, field := range [...][2]string{
		{"reason", denials[e.kind].reason}, {"context", string(e.context)}, {"object", e.object}, {"username", e.user},
	} {
		out.Text(field[0])
		out.Text(field[1])
	}
	out.Text("age-seconds")
	out.Double(fmt.Sprintf("%.3f", max(now.Sub(e.at), 0).Seconds()))
	out.Text("client-info")
	out.Text(e.client)
}

// refusal returns the reply to a command that is not permitted.
func (d denial) refusal() replyError {
	return replyError("NOPERM this user has no permissions to " + d.fill(denials[d.kind].refusal))
}

// queuedRefusal returns the reply of EXEC to a queued command that is not permitted any more.
func (d denial) queuedRefusal() replyError {
	return replyError("NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. " +
		"This command is no longer allowed for the following reason: " + denials[d.kind].rechecked)
}

// dryRun returns the reply of ACL DRYRUN.
func (d denial) dryRun() string {
	return "This user has no permissions to " + d.fill(denials[d.kind].dryRun)
}

func (d denial) fill(text string) string {
	return strings.Replace(text, "%s", echo([]byte(d.object), maxEcho), 1)
}
