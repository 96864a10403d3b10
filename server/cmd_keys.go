package server

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/throttledhq/throttled/internal/glob"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/resp"
)

func cmdType(c *client, args [][]byte) error {
	entry, _ := c.srv.engine.Lookup(args[1])
	c.out.Status(entry.Kind.String())
	return nil
}

// noSuchKey is the reply of TTL, EXPIRETIME and similar commands for an absent key.
const noSuchKey = -2

// cmdTTL rounds up, like the field reset_after of a decision, so that the TTL of an existing key is positive.
func cmdTTL(c *client, args [][]byte) error { return replyTTL(c, args[1], time.Second) }

func cmdPTTL(c *client, args [][]byte) error { return replyTTL(c, args[1], time.Millisecond) }

func replyTTL(c *client, key []byte, unit time.Duration) error {
	entry, found := c.srv.engine.Lookup(key)
	if !found {
		c.out.Int(noSuchKey)
		return nil
	}
	c.out.Int(limiter.Ceil(entry.TTL, unit))
	return nil
}

// cmdExpireTime rounds up, like cmdTTL. The time is based on the wall clock.
func cmdExpireTime(c *client, args [][]byte) error {
	return replyExpiry(c, args[1], func(at time.Time) int64 {
		return at.Unix() + int64(countTrue(at.Nanosecond() > 0))
	})
}

func cmdPExpireTime(c *client, args [][]byte) error {
	return replyExpiry(c, args[1], func(at time.Time) int64 {
		return at.UnixMilli() + int64(countTrue(at.Nanosecond()%int(time.Millisecond) > 0))
	})
}

func replyExpiry(c *client, key []byte, unix func(at time.Time) int64) error {
	entry, found := c.srv.engine.Lookup(key)
	if !found {
		c.out.Int(noSuchKey)
		return nil
	}
	c.out.Int(unix(time.Now().Add(entry.TTL)))
	return nil
}

// cmdRandomKey replies with null if there is no key.
func cmdRandomKey(c *client, _ [][]byte) error {
	if key, found := c.srv.engine.RandomKey(rand.Uint64()); found { // #nosec G404 -- not a secret
		c.out.Bulk(key)
	} else {
		c.out.Null()
	}
	return nil
}

// cmdExists implements EXISTS and TOUCH, which are equivalent since keys have no access time.
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
		found, err := c.srv.engine.Delete(key)
		if err = ignoreNotLeading(err); err != nil {
			return err
		}
		n += int64(countTrue(found))
	}
	c.out.Int(n)
	return nil
}

func cmdDBSize(c *client, _ [][]byte) error {
	c.out.Int(c.srv.engine.Usage().Keys)
	return nil
}

// cmdFlush implements FLUSHALL and FLUSHDB, which are equivalent since there is only one database. SYNC and ASYNC are
// also equivalent: the memory of a shard is released in one step, so there is no work that ASYNC could defer.
func cmdFlush(c *client, args [][]byte) error {
	if len(args) > 2 || len(args) == 2 && !isOneOf(args[1], "sync", "async") {
		return errSyntax
	}
	if err := ignoreNotLeading(c.srv.engine.Clear()); err != nil {
		return err
	}
	c.out.OK()
	return nil
}

const (
	scanDefault = 10
	scanMost    = 1000 // maximum number of keys per step; in a transaction, a step blocks other clients until it ends

	// scanBytes is the approximate maximum size in bytes of the keys that a step copies. A step scans scanPiece keys
	// at a time, and stops when the total size of the copied keys reaches scanBytes.
	scanBytes = 1 << 20
	scanPiece = 8
)

// scanQuery holds the arguments of SCAN.
type scanQuery struct {
	cursor  uint64
	count   int
	pattern string
	kind    string // type of the keys to return; "" matches any
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
	keys, next := q.step(c.srv.engine)
	c.out.Array(2)
	c.out.Text(strconv.FormatUint(next, 10))
	replyTexts(&c.out, keys)
	return nil
}

// step makes one step of an iteration. It compares keys with the pattern after the engine has released its locks,
// since matching a malicious pattern can be slow.
func (q *scanQuery) step(engine limiter.Engine) (keys []string, next uint64) {
	size := 0
	visit := func(key []byte, kind limiter.Kind) {
		if q.kind == "" || q.kind == kind.String() {
			keys = append(keys, string(key))
			size += len(key)
		}
	}
	next = q.cursor
	for left := q.count; left > 0 && size < scanBytes; left -= scanPiece {
		if next = engine.Scan(next, min(left, scanPiece), visit); next == 0 {
			break
		}
	}
	keys = slices.DeleteFunc(keys, func(key string) bool { return !glob.Match(q.pattern, key) })
	return keys, next
}

func replyTexts(out *resp.Reply, list []string) {
	out.Array(len(list))
	for _, s := range list {
		out.Text(s)
	}
}

// cmdKeys visits all keys in steps, so that other commands can run between the steps. In a transaction no other
// command could run, so KEYS is refused there. maxKeysReply limits the size of the reply. For larger results, clients
// must use SCAN.
func cmdKeys(c *client, args [][]byte) error {
	if c.session.tx.running {
		return errKeysInMulti
	}
	q := scanQuery{count: keysStep, pattern: string(args[1])}
	var all []string
	size := 0
	for more := true; more; more = q.cursor != 0 {
		var keys []string
		keys, q.cursor = q.step(c.srv.engine)
		for _, key := range keys {
			size += len(key) + perArgument
		}
		if size > maxKeysReply {
			return errManyKeys
		}
		all = append(all, keys...)
	}
	replyTexts(&c.out, all)
	return nil
}

const (
	keysStep     = 10_000
	maxKeysReply = 16 << 20 // maximum memory of the keys in a reply, in bytes
)

func cmdObjectEncoding(c *client, args [][]byte) error {
	if entry, found := c.srv.engine.Lookup(args[2]); found {
		c.out.Text(entry.Kind.Encoding())
	} else {
		c.out.Null()
	}
	return nil
}

// cmdObjectRefcount replies with 1 for every key, since keys do not share state.
func cmdObjectRefcount(c *client, args [][]byte) error {
	if _, found := c.srv.engine.Lookup(args[2]); found {
		c.out.Int(1)
	} else {
		c.out.Null()
	}
	return nil
}

func cmdObjectFreq(c *client, args [][]byte) error     { return untracked(c, args[2], errNoLFU) }
func cmdObjectIdleTime(c *client, args [][]byte) error { return untracked(c, args[2], errNoIdleTime) }

// untracked returns the parameter reason as the error if the key exists, and otherwise replies with null.
func untracked(c *client, key []byte, reason error) error {
	if _, found := c.srv.engine.Lookup(key); found {
		return reason
	}
	c.out.Null()
	return nil
}
