package server

import (
	"fmt"
	"sync"
	"time"

	"github.com/throttledhq/throttled/resp"
)

// Limits of an entry of the slow log, as in Redis.
const (
	slowArgs     = 32
	slowArgBytes = 128
)

// slowlog holds the most recent slow commands, newest last.
type slowlog struct {
	mu      sync.Mutex
	entries []slowEntry
	lastID  int64
}

type slowEntry struct {
	id   int64
	at   time.Time
	took time.Duration
	args []string
	addr string
	name string
}

// add appends a command, and removes the oldest entries beyond maxLen.
func (l *slowlog) add(c *client, maxLen int, took time.Duration, args [][]byte) {
	e := slowEntry{at: time.Now(), took: took, args: truncatedArgs(args), addr: c.addr().String(), name: c.session.currentInfo().name}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.id = l.lastID
	l.lastID++
	l.entries = append(l.entries, e)
	if over := len(l.entries) - maxLen; over > 0 {
		l.entries = append(l.entries[:0], l.entries[over:]...)
	}
}

// account adds one run of a command to the statistics, the slow log and the latency monitor. took is the duration of
// the run.
func account(c *client, cmd *command, took time.Duration, args [][]byte) {
	c.srv.stats.of(cmd).add(1, took)
	recordSlow(c, cmd, took, func() [][]byte { return args })
}

// accountBatch adds the calls of a decided batch to the statistics. took is the duration of the batch. It is divided
// among the commands in proportion to the number of their requests. The slow log and the latency monitor treat the
// batch as one run of its first command.
func accountBatch(c *client, b *batch, took time.Duration) {
	for from := 0; from < len(b.calls); {
		cmd, to, n := b.calls[from].cmd, from, 0
		for to < len(b.calls) && b.calls[to].cmd == cmd {
			n += b.calls[to].n
			to++
		}
		c.srv.stats.of(cmd).add(to-from, took*time.Duration(n)/time.Duration(max(len(b.reqs), 1)))
		from = to
	}
	recordSlow(c, b.calls[0].cmd, took, b.slowArgs)
}

// recordSlow adds a run to the slow log if the run reaches the threshold of the slow log, and to the latency monitor if
// it reaches the threshold of the monitor. The function args returns the arguments of the command. recordSlow calls
// args only if it adds the run to the slow log.
func recordSlow(c *client, cmd *command, took time.Duration, args func() [][]byte) {
	o := c.srv.opts.Get()
	if o.SlowlogLogSlowerThan >= 0 && took >= o.SlowlogLogSlowerThan && !cmd.is(skipSlowlog) {
		c.srv.slowlog.add(c, o.SlowlogMaxLen, took, redact(cmd, args()))
	}
	if o.LatencyMonitorThreshold > 0 && took >= o.LatencyMonitorThreshold {
		c.srv.latency.add("command", took)
	}
}

// truncatedArgs returns a copy of the arguments, each truncated to slowArgBytes bytes. If there are more than slowArgs
// arguments, the result has slowArgs elements, and the last element states the number of omitted arguments.
func truncatedArgs(args [][]byte) []string {
	words := make([]string, 0, min(len(args), slowArgs))
	for i, arg := range args {
		switch {
		case i == slowArgs-1 && len(args) > slowArgs:
			return append(words, fmt.Sprintf("... (%d more arguments)", len(args)-i))
		case len(arg) > slowArgBytes:
			words = append(words, fmt.Sprintf("%s... (%d more bytes)", arg[:slowArgBytes], len(arg)-slowArgBytes))
		default:
			words = append(words, string(arg))
		}
	}
	return words
}

// newest returns at most n entries, newest first. If n is negative, it returns all entries.
func (l *slowlog) newest(n int) []slowEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n < 0 || n > len(l.entries) {
		n = len(l.entries)
	}
	list := make([]slowEntry, n)
	for i := range list {
		list[i] = l.entries[len(l.entries)-1-i]
	}
	return list
}

func (l *slowlog) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

func (l *slowlog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = nil
}

const slowlogDefault = 10 // default number of entries of SLOWLOG GET

func cmdSlowlogGet(c *client, args [][]byte) error {
	n := int64(slowlogDefault)
	if len(args) > 3 {
		return errSubcommand(args)
	}
	if len(args) == 3 {
		var ok bool
		if n, ok = resp.ParseInt(args[2]); !ok || n < -1 {
			return replyError("ERR count should be greater than or equal to -1")
		}
	}
	list := c.srv.slowlog.newest(int(n))
	c.out.Array(len(list))
	for _, e := range list {
		c.out.Array(6)
		c.out.Int(e.id)
		c.out.Int(e.at.Unix())
		c.out.Int(e.took.Microseconds())
		c.out.Array(len(e.args))
		for _, word := range e.args {
			c.out.Text(word)
		}
		c.out.Text(e.addr)
		c.out.Text(e.name)
	}
	return nil
}

func cmdSlowlogLen(c *client, _ [][]byte) error {
	c.out.Int(int64(c.srv.slowlog.len()))
	return nil
}

func cmdSlowlogReset(c *client, _ [][]byte) error {
	c.srv.slowlog.reset()
	c.out.OK()
	return nil
}
