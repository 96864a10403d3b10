package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

// client sends requests, mostly one at a time, and records the replies. After a failure it
// moves to the next node, unless it is loyal. A loyal client retries the same node, and
// therefore receives the replies of a deposed leader.
type client struct {
	id      int
	addrs   []string
	current int // index of the current or next node
	loyal   bool
	clock   clock
	random  *rand.Rand
	conn    *conn

	ops     []history.Op
	counted int  // number of ops that fleetLoad has counted
	unsure  bool // not all requests of the last call of charge were decided
	keys    *keyring
	load    *load
	pairs   []pairCount
	refused map[string]int // number of errors that guarantee that nothing was charged, by their first word
	lost    map[string]int // number of requests with an unknown outcome, by the first word of the error
	downs   int            // failed dials
	piped   int            // pipelines sent
	cutOff  int            // pipelines without a complete set of replies
	errs    []string       // invalid replies
}

// pairCount counts the commands that have charged a pair of keys (charged), and those that may have
// charged it (open).
type pairCount struct{ charged, open int64 }

// maxErrs is the number of invalid replies that a client keeps.
const maxErrs = 5

// request is a charge, a refund or a peek.
type request struct {
	op    history.Op
	limit int64 // limit that the reply must contain
	words []string
}

// ofKey returns a request on a GCRA key.
func ofKey(k *history.Key, quantity int64) request {
	return request{history.Op{Key: k, Quantity: quantity}, k.Limit(),
		[]string{"CL.THROTTLE", k.Name, itoa(k.MaxBurst), itoa(k.Count), itoa(int64(k.Period / time.Second)), itoa(quantity)}}
}

// request returns a request on a key of an algorithm other than GCRA.
func (w *windowKey) request(quantity int64) request {
	return request{history.Op{Key: w.of, Quantity: quantity}, w.limit, slices.Concat(w.words, []string{itoa(quantity)}, w.mode)}
}

// connected dials the current node if the client has no connection. It returns false if the dial
// fails.
func (c *client) connected() bool {
	if c.conn == nil {
		var err error
		if c.conn, err = dial(c.addrs[c.current]); err != nil {
			c.downs++
			c.noteFailed()
			c.leave()
			return false
		}
	}
	return true
}

// ask sends a command and counts its errors. It returns the reply, the fate of the command
// (decided, refused, unknown or wrong), and the time at which the command was sent.
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

// account returns the fate of a reply, and counts the reply unless it is a decision.
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
		c.complain("%s on %s: unexpected error %q", words, c.addrs[c.current], r.text)
	}
	return f
}

// noteFailed counts a request without a decision in the load of the client. It does nothing if the client
// has no load.
func (c *client) noteFailed() {
	if c.load != nil {
		c.load.failed.Add(1)
	}
}

// complain records an invalid reply.
func (c *client) complain(format string, args ...any) {
	if len(c.errs) < maxErrs {
		c.errs = append(c.errs, fmt.Sprintf(format, args...))
	}
}

// leave closes the connection, and moves to the next node unless the client is loyal.
func (c *client) leave() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
	if c.load != nil {
		c.addrs = c.load.places()
	}
	if !c.loyal {
		c.current = (c.current + 1) % len(c.addrs)
	}
}

// throttle charges, refunds or peeks at a key.
func (c *client) throttle(k *history.Key, quantity int64) { c.decide(ofKey(k, quantity)) }

// decide sends requests in one write and reads the replies in order. If a reply is missing, the
// outcome of its request and of all later requests is unknown.
func (c *client) decide(reqs ...request) {
	if !c.connected() {
		return
	}
	var commands [][]string
	for i := range reqs {
		commands = append(commands, reqs[i].words)
	}
	node := c.current
	call, answers := c.exchange(commands)
	for i := range answers {
		a, o := &answers[i], reqs[i].op
		o.Client, o.Node, o.Call, o.Return = c.id, node, call, a.at
		c.record(o, reqs[i].limit, &a.reply, a.fate)
	}
}

// answered is a reply to a command of a pipeline, or the lack of one.
type answered struct {
	reply reply
	fate  fate
	at    int64 // time at which it was received
}

// exchange sends commands in one write, and returns the time at which they were sent, and their replies in order. If a reply is
// missing, the fates of its command and of all later ones are unknown. The client must be connected.
func (c *client) exchange(commands [][]string) (call int64, answers []answered) {
	call = c.clock.now()
	err := c.conn.send(patience, commands...)
	good := true
	for i := range commands {
		var a answered
		if err == nil {
			a.reply, err = c.conn.receive()
		}
		a.fate, a.at = c.account(commands[i], &a.reply, err), c.clock.now()
		good = good && a.fate == decided
		answers = append(answers, a)
	}
	if len(commands) > 1 {
		c.piped++
		if err != nil {
			c.cutOff++
		}
	}
	if !good {
		c.leave()
	}
	return call, answers
}

// record records a request with its reply.
func (c *client) record(o history.Op, limit int64, r *reply, f fate) {
	switch n := r.integers(); {
	case f == unknown:
		o.Outcome, o.Return = history.Unknown, history.Never
	case f != decided:
		return
	case len(n) != 5 || n[0]&^1 != 0 || n[1] != limit:
		c.complain("request of %d units on %+v, with limit %d: invalid reply %v", o.Quantity, *o.Key, limit, n)
		return
	default:
		o.Outcome = history.Outcome(n[0]) // 0 and 1 are Granted and Limited
		o.Remaining, o.RetryAfter, o.ResetAfter = n[2], n[3], n[4]
		if c.load != nil {
			c.load.decided.Add(1)
		}
	}
	c.ops = append(c.ops, o)
}

// mostPiped is the largest number of requests in a pipeline.
const mostPiped = 12

// pipeline sends several requests in one write. All keys in a pipeline have different
// limits, so that a reply to the wrong request is detected.
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
	o := history.Op{Key: k, Client: c.id, Node: c.current, Kind: history.Delete}
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

// pair charges the two keys of the i-th pair atomically.
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
		c.complain("CL.ALL on pair %d: invalid reply %v", i, r)
	}
}

// next sends a random request.
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

// quantity returns a random quantity: usually 1, sometimes 2 or 0. A request with 0 is a peek.
func (c *client) quantity() int64 {
	switch dice := c.random.IntN(20); dice {
	case 0, 1:
		return 0
	case 2:
		return 2
	}
	return 1
}

// search sends a random request on the i-th of the keys whose histories check.Linear verifies.
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

// run sends a random request in each interval (every) until ctx is done. It sends none while the
// load is on hold.
func (c *client) run(ctx context.Context, every time.Duration) {
	c.repeat(ctx, every, func() {
		if !c.load.onHold() {
			c.next()
		}
	})
}

// repeat calls the function send in each interval (every) until ctx is done, and then closes the connection.
func (c *client) repeat(ctx context.Context, every time.Duration, send func()) {
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
			send()
		}
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
