package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/throttledhq/throttled/scripts/chaos/history"
)

// client asks for decisions, one at a time, and remembers what came back. It goes on to the
// next node when one fails it, unless it is loyal: then it asks the same one again, and so sees what
// a leader says that is not one any more.
type client struct {
	id     int
	addrs  []string
	at     int // the node it is connected to, or will be next
	loyal  bool
	clock  clock
	random *rand.Rand
	conn   *conn

	ops     []history.Op
	keys    *keyring
	load    *load
	pairs   []pairCount
	refused map[string]int // replies that say nothing was charged, by their first word
	lost    map[string]int // requests without a known outcome, likewise
	downs   int            // connections that could not be made
	errs    []string       // replies that must not be
}

// pairCount counts what is known of two keys that are charged together.
type pairCount struct{ charged, open int64 }

// maxErrs is how many wrong replies a client remembers.
const maxErrs = 5

// ask sends a command and accounts for errors.
func (c *client) ask(words ...string) (r reply, f fate, call int64) {
	if c.conn == nil {
		var err error
		if c.conn, err = dial(c.addrs[c.at]); err != nil {
			c.downs++
			c.leave()
			return r, refused, c.clock.now()
		}
	}
	call = c.clock.now()
	r, err := c.conn.ask(patience, words...)
	f, word := fateOf(&r, err)
	switch f {
	case decided:
		return r, f, call
	case refused:
		c.refused[word]++
	case unknown:
		c.lost[word]++
	case wrong:
		if len(c.errs) < maxErrs {
			c.errs = append(c.errs, fmt.Sprintf("%s of %s is answered with %q", words, c.addrs[c.at], r.text))
		}
	}
	c.leave()
	return r, f, call
}

// leave ends the connection, and goes on to the next node.
func (c *client) leave() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
	if !c.loyal {
		c.at = (c.at + 1) % len(c.addrs)
	}
}

// throttle charges a key, or gives back, or peeks.
func (c *client) throttle(k *history.Key, quantity int64) {
	o := history.Op{Key: k, Client: c.id, Node: c.at, Quantity: quantity}
	r, f, call := c.ask("CL.THROTTLE", k.Name, itoa(k.MaxBurst), itoa(k.Count), itoa(int64(k.Period/time.Second)), itoa(quantity))
	o.Call, o.Return = call, c.clock.now()
	switch n := r.integers(); {
	case f == unknown:
		o.Outcome, o.Return = history.Unknown, history.Never
	case f != decided:
		return
	case len(n) != 5 || n[1] != k.Limit():
		c.errs = append(c.errs, fmt.Sprintf("CL.THROTTLE on %+v is answered with %v", *k, n))
		return
	default:
		o.Outcome = history.Outcome(n[0]) // 0 and 1 mean the same there
		o.Remaining, o.RetryAfter, o.ResetAfter = n[2], n[3], n[4]
	}
	c.ops = append(c.ops, o)
}

// forget deletes a key.
func (c *client) forget(k *history.Key) {
	o := history.Op{Key: k, Client: c.id, Node: c.at, Kind: history.Delete}
	r, f, call := c.ask("DEL", k.Name)
	o.Call, o.Return = call, c.clock.now()
	switch f {
	case decided:
		o.Existed = r.n == 1
	case unknown:
		o.Outcome, o.Return = history.Unknown, history.Never
	default:
		return
	}
	c.ops = append(c.ops, o)
}

// pair charges two keys in one step.
func (c *client) pair(i int) {
	words := []string{"CL.ALL", "1"}
	for _, key := range c.keys.pairs[i] {
		words = append(words, "THROTTLE", key, "49999", "1", "86400")
	}
	r, f, _ := c.ask(words...)
	switch {
	case f == unknown:
		c.pairs[i].open++
	case f == decided && len(r.integers()) >= 5 && r.list[0].n == 0:
		c.pairs[i].charged++
	case f == decided:
		c.errs = append(c.errs, fmt.Sprintf("CL.ALL on pair %d is answered with %v", i, r))
	}
}

// next asks for something.
func (c *client) next() {
	r := c.random
	switch dice := r.IntN(100); {
	case dice < 45:
		c.throttle(c.keys.hot[r.IntN(hotKeys)], c.quantity())
	case dice < 60:
		c.throttle(c.keys.cold[r.IntN(coldKeys)], c.quantity())
	case dice < 75:
		c.throttle(c.keys.ledger[r.IntN(ledgerKeys)], c.quantity())
	case dice < 85:
		c.pair(r.IntN(pairKeys))
	case dice < 93 && c.id < linearShare:
		c.search(r.IntN(linearKeys))
	default:
		c.window()
	}
}

// quantity is mostly 1; 0 only looks.
func (c *client) quantity() int64 {
	switch dice := c.random.IntN(20); dice {
	case 0, 1:
		return 0
	case 2:
		return 2
	}
	return 1
}

// search asks for something on the i-th key for Linear.
func (c *client) search(i int) {
	k := c.load.share(linear(i, c.clock.now()))
	dice := c.random.IntN(20)
	switch {
	case mixed(i) && dice == 0:
		c.forget(k)
	case mixed(i) && dice < 3:
		c.throttle(k, -1)
	default:
		c.throttle(k, c.quantity())
	}
}

// window charges a key of another algorithm.
func (c *client) window() {
	key := c.keys.window[c.random.IntN(windowKeys)]
	modes := []string{"SLIDING", "FIXED", "LOG", "BUCKETS"}
	words := []string{"CL.WINDOW", "", "50", "10", "1", modes[c.random.IntN(len(modes))]}
	words[1] = key + words[5]
	if words[5] == "BUCKETS" {
		words = append(words, "5")
	}
	_, _, _ = c.ask(words...) // errors are accounted for
}

// run asks every so often until ctx ends.
func (c *client) run(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			if c.conn != nil {
				_ = c.conn.Close()
			}
			return
		case <-ticker.C:
			if !c.load.onHold() {
				c.next()
			}
		}
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
