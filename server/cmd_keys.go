package server

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/throttledhq/throttled/glob"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/resp"
)

func cmdType(c *client, args [][]byte) error {
	entry, _ := c.srv.engine.Lookup(args[1])
	c.out.Status(entry.Kind.String())
	return nil
}

// noSuchKey is what TTL, EXPIRETIME and the like answer for a key that is not there.
const noSuchKey = -2

// cmdTTL rounds up, as the reset_after of a decision does: a key that is there has time.
func cmdTTL(c *client, args [][]byte) error { return c.replyTTL(args[1], time.Second) }

func cmdPTTL(c *client, args [][]byte) error { return c.replyTTL(args[1], time.Millisecond) }

func (c *client) replyTTL(key []byte, unit time.Duration) error {
	entry, found := c.srv.engine.Lookup(key)
	if !found {
		c.out.Int(noSuchKey)
		return nil
	}
	c.out.Int(limiter.Ceil(entry.TTL, unit))
	return nil
}

// cmdExpireTime rounds up, as TTL does. The time is that of the wall clock.
func cmdExpireTime(c *client, args [][]byte) error {
	return c.replyExpiry(args[1], func(at time.Time) int64 {
		return at.Unix() + int64(countTrue(at.Nanosecond() > 0))
	})
}

func cmdPExpireTime(c *client, args [][]byte) error {
	return c.replyExpiry(args[1], func(at time.Time) int64 {
		return at.UnixMilli() + int64(countTrue(at.Nanosecond()%int(time.Millisecond) > 0))
	})
}

func (c *client) replyExpiry(key []byte, unix func(at time.Time) int64) error {
	entry, found := c.srv.engine.Lookup(key)
	if !found {
		c.out.Int(noSuchKey)
		return nil
	}
	c.out.Int(unix(time.Now().Add(entry.TTL)))
	return nil
}

// cmdRandomKey answers nil if no key is there.
func cmdRandomKey(c *client, _ [][]byte) error {
	if key, found := c.srv.engine.RandomKey(rand.Uint64()); found {
		c.out.Bulk(key)
	} else {
		c.out.Null()
	}
	return nil
}

// cmdExists serves EXISTS and TOUCH, which differ only where keys have an access time.
func cmdExists(c *client, args [][]byte) error {
	n := int64(0)
	for _, key := range args[1:] {
		if _, found := c.srv.engine.Lookup(key); found {
			n++
		}
	}
	c.out.Int(n)
	return nil
}

func cmdDel(c *client, args [][]byte) error {
	n := int64(0)
	for _, key := range args[1:] {
		if c.srv.engine.Delete(key) {
			n++
		}
	}
	c.out.Int(n)
	return nil
}

func cmdDBSize(c *client, _ [][]byte) error {
	c.out.Int(c.srv.engine.Usage().Keys)
	return nil
}

// cmdFlush serves FLUSHALL and FLUSHDB: there is one database. SYNC and ASYNC are the
// same, as a shard's memory is let go in one step either way.
func cmdFlush(c *client, args [][]byte) error {
	if len(args) > 2 || len(args) == 2 && !isOneOf(args[1], "sync", "async") {
		return errSyntax
	}
	c.srv.engine.Clear()
	c.out.OK()
	return nil
}

const (
	scanDefault = 10
	scanMost    = 1000 // keys of a step: others wait for one that runs in a transaction

	// scanBytes is about how many bytes of keys a step copies at the most. It stops behind the
	// piece, of scanPiece keys, that reaches it.
	scanBytes = 1 << 20
	scanPiece = 8
)

// scanQuery is what SCAN asks for.
type scanQuery struct {
	cursor  uint64
	count   int
	pattern string
	kind    string // "": any
}

func parseScan(args [][]byte) (q scanQuery, err error) {
	q = scanQuery{count: scanDefault, pattern: "*"}
	if q.cursor, err = strconv.ParseUint(string(args[1]), 10, 64); err != nil {
		return q, errCursor
	}
	for args = args[2:]; len(args) > 1; args = args[2:] {
		switch strings.ToLower(string(args[0])) {
		case "match":
			q.pattern = string(args[1])
		case "type":
			q.kind = strings.ToLower(string(args[1]))
		case "count":
			n, ok := resp.ParseInt(args[1])
			if !ok {
				return q, errNotInteger
			}
			if n < 1 {
				return q, errSyntax
			}
			q.count = int(min(n, scanMost))
		default:
			return q, errSyntax
		}
	}
	if len(args) > 0 {
		return q, errSyntax
	}
	return q, nil
}

func cmdScan(c *client, args [][]byte) error {
	q, err := parseScan(args)
	if err != nil {
		return err
	}
	keys, next := c.scan(&q)
	c.out.Array(2)
	c.out.Text(strconv.FormatUint(next, 10))
	c.replyTexts(keys)
	return nil
}

// scan takes one step. The keys are matched after the engine has let go of them: a
// pattern made for it takes its time.
func (c *client) scan(q *scanQuery) (keys []string, next uint64) {
	size := 0
	visit := func(key []byte, kind limiter.Kind) {
		if q.kind == "" || q.kind == kind.String() {
			keys = append(keys, string(key))
			size += len(key)
		}
	}
	next = q.cursor
	for left := q.count; left > 0 && size < scanBytes; left -= scanPiece {
		if next = c.srv.engine.Scan(next, min(left, scanPiece), visit); next == 0 {
			break
		}
	}
	keys = slices.DeleteFunc(keys, func(key string) bool { return !glob.Match(q.pattern, key) })
	return keys, next
}

func (c *client) replyTexts(list []string) {
	c.out.Array(len(list))
	for _, s := range list {
		c.out.Text(s)
	}
}

// cmdKeys visits all keys in steps, so that decisions go on meanwhile. That is also why
// it does not run in a transaction, where they could not. The reply has a bound; the steps of SCAN together have none.
func cmdKeys(c *client, args [][]byte) error {
	if c.tx.running {
		return errKeysInMulti
	}
	q := scanQuery{count: keysStep, pattern: string(args[1])}
	var all []string
	size := 0
	for more := true; more; more = q.cursor != 0 {
		var keys []string
		keys, q.cursor = c.scan(&q)
		for _, key := range keys {
			size += len(key) + perArgument
		}
		if size > maxKeysReply {
			return errManyKeys
		}
		all = append(all, keys...)
	}
	c.replyTexts(all)
	return nil
}

const (
	keysStep     = 10_000
	maxKeysReply = 16 << 20 // bytes of memory that the keys of one reply may take
)

func cmdObjectEncoding(c *client, args [][]byte) error {
	if entry, found := c.srv.engine.Lookup(args[2]); found {
		c.out.Text(entry.Kind.Encoding())
	} else {
		c.out.Null()
	}
	return nil
}

// cmdObjectRefcount answers 1: every key has a state of its own.
func cmdObjectRefcount(c *client, args [][]byte) error {
	if _, found := c.srv.engine.Lookup(args[2]); found {
		c.out.Int(1)
	} else {
		c.out.Null()
	}
	return nil
}

func cmdObjectFreq(c *client, args [][]byte) error     { return c.untracked(args[2], errNoLFU) }
func cmdObjectIdleTime(c *client, args [][]byte) error { return c.untracked(args[2], errNoIdleTime) }

// untracked answers for a property that keys do not have.
func (c *client) untracked(key []byte, reason error) error {
	if _, found := c.srv.engine.Lookup(key); found {
		return reason
	}
	c.out.Null()
	return nil
}
