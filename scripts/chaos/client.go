package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/throttledhq/throttled/scripts/chaos/history"
)

// client asks for decisions, mostly one at a time, and remembers what came back. It goes on to the
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
	piped   int            // pipelines
	cutOff  int            // of them, those of which not every reply came
	errs    []string       // replies that must not be
}

// pairCount counts what is known of two keys that are charged together.
type pairCount struct{ charged, open int64 }

// maxErrs is how many wrong replies a client remembers.
const maxErrs = 5

// request is a charge that a client asks for, or a refund, or a look.
type request struct {
	op    history.Op
	limit int64 // that the reply tells
	words []string
}

// ofKey returns a request on a key of GCRA.
func ofKey(k *history.Key, quantity int64) request {
	return request{history.Op{Key: k, Quantity: quantity}, k.Limit(),
		[]string{"CL.THROTTLE", k.Name, itoa(k.MaxBurst), itoa(k.Count), itoa(int64(k.Period / time.Second)), itoa(quantity)}}
}

// request returns one on a key of another algorithm.
func (w *windowKey) request(quantity int64) request {
	return request{history.Op{Key: w.of, Quantity: quantity}, w.limit, slices.Concat(w.words, []string{itoa(quantity)}, w.mode)}
}

// connected makes a connection if there is none.
func (c *client) connected() bool {
	if c.conn == nil {
		var err error
		if c.conn, err = dial(c.addrs[c.at]); err != nil {
			c.downs++
			c.noteFailed()
			c.leave()
			return false
		}
	}
	return true
}

// ask sends a command and accounts for errors.
func (c *client) ask(words ...string) (r reply, f fate, call int64) {
	if !c.connected() {
		return r, refused, c.clock.now()
	}
	call = c.clock.now()
	r, err := c.conn.ask(patience, words...)
	if f = c.account(words, &r, err); f != decided {
		c.leave()
	}
	return r, f, call
}

// account says what a reply means, and counts those that decide nothing.
func (c *client) account(words []string, r *reply, err error) fate {
	f, word := fateOf(r, err)
	switch f {
	case decided:
	case refused:
		c.noteFailed()
		c.refused[word]++
	case unknown:
		c.noteFailed()
		c.lost[word]++
	case wrong:
		c.complain("%s of %s is answered with %q", words, c.addrs[c.at], r.text)
	}
	return f
}

// noteFailed counts a request without a decision for the load that the client is part of.
func (c *client) noteFailed() {
	if c.load != nil {
		c.load.failed.Add(1)
	}
}

// complain remembers a reply that must not be.
func (c *client) complain(format string, args ...any) {
	if len(c.errs) < maxErrs {
		c.errs = append(c.errs, fmt.Sprintf(format, args...))
	}
}

// leave ends the connection, and goes on to the next node.
func (c *client) leave() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
	if c.load != nil {
		c.addrs = c.load.places()
	}
	if !c.loyal {
		c.at = (c.at + 1) % len(c.addrs)
	}
}

// throttle charges a key, or gives back, or peeks.
func (c *client) throttle(k *history.Key, quantity int64) { c.decide(ofKey(k, quantity)) }

// decide asks for decisions in one write, and takes the replies in that order. Once one has not come,
// any of those behind it may have been charged as well.
func (c *client) decide(reqs ...request) {
	if !c.connected() {
		return
	}
	node, call, good := c.at, c.clock.now(), true
	var commands [][]string
	for i := range reqs {
		commands = append(commands, reqs[i].words)
	}
	err := c.conn.send(patience, commands...)
	for i := range reqs {
		var r reply
		if err == nil {
			r, err = c.conn.receive()
		}
		f := c.account(reqs[i].words, &r, err)
		good = good && f == decided
		o := reqs[i].op
		o.Client, o.Node, o.Call, o.Return = c.id, node, call, c.clock.now()
		c.take(o, reqs[i].limit, &r, f)
	}
	if len(reqs) > 1 {
		c.piped++
		if err != nil {
			c.cutOff++
		}
	}
	if !good {
		c.leave()
	}
}

// take remembers a request and what came back.
func (c *client) take(o history.Op, limit int64, r *reply, f fate) {
	switch n := r.integers(); {
	case f == unknown:
		o.Outcome, o.Return = history.Unknown, history.Never
	case f != decided:
		return
	case len(n) != 5 || n[0]&^1 != 0 || n[1] != limit:
		c.complain("a request for %d of %+v, whose limit is %d, is answered with %v", o.Quantity, *o.Key, limit, n)
		return
	default:
		o.Outcome = history.Outcome(n[0]) // 0 and 1 mean the same there
		o.Remaining, o.RetryAfter, o.ResetAfter = n[2], n[3], n[4]
		if c.load != nil {
			c.load.decided.Add(1)
		}
	}
	c.ops = append(c.ops, o)
}

// mostPiped is how many requests a pipeline has at the most.
const mostPiped = 12

// pipeline asks for several decisions in one write. No two of them are on keys of the same limit, so
// that a reply to another request is found out.
func (c *client) pipeline() {
	r, k := c.random, c.keys
	seen, reqs := map[int64]bool{}, []request(nil)
	for range 2 + r.IntN(mostPiped-1) {
		q := ofKey(k.hot[r.IntN(hotKeys)], c.quantity())
		switch r.IntN(4) {
		case 0:
			q = ofKey(k.ledger[r.IntN(ledgerKeys)], c.quantity())
		case 1:
			q = k.window[r.IntN(len(k.window))].request(c.quantity())
		}
		if !seen[q.limit] {
			seen[q.limit] = true
			reqs = append(reqs, q)
		}
	}
	c.decide(reqs...)
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
		words = append(append(words, "THROTTLE", key), slow()...)
	}
	r, f, _ := c.ask(words...)
	switch {
	case f == unknown:
		c.pairs[i].open++
	case f == decided && len(r.integers()) >= 5 && r.list[0].n == 0:
		c.pairs[i].charged++
	case f == decided:
		c.complain("CL.ALL on pair %d is answered with %v", i, r)
	}
}

// next asks for something.
func (c *client) next() {
	r := c.random
	switch dice := r.IntN(100); {
	case dice < 40:
		c.throttle(c.keys.hot[r.IntN(hotKeys)], c.quantity())
	case dice < 53:
		c.throttle(c.keys.cold[r.IntN(coldKeys)], c.quantity())
	case dice < 66:
		c.throttle(c.keys.ledger[r.IntN(ledgerKeys)], c.quantity())
	case dice < 75:
		c.pair(r.IntN(pairKeys))
	case dice < 80:
		c.pipeline()
	case dice < 88 && c.id < linearShare:
		c.search(r.IntN(linearKeys))
	default:
		c.decide(c.keys.window[r.IntN(len(c.keys.window))].request(c.quantity()))
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
