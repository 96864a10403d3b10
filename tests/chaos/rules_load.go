package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

const (
	rulesClientsPerNode = 4
	rulesPiped          = 8 // largest number of requests in a pipeline
	rulesEditors        = 2
	rulesEvery          = 100 * time.Millisecond // interval of the changes by all editors together
	rulesListed         = 1000                   // versions that a node is asked for
	rulesRetry          = 20 * time.Millisecond  // pause of a client after a failure
)

// rulesLoad is a set of clients that send CL.CHECK, and of editors that change the rules.
type rulesLoad struct {
	clock   clock
	ctx     context.Context // canceled by stop
	stop    context.CancelFunc
	running sync.WaitGroup
	clients []*rulesClient
	editors []*rulesEditor
	heavy   *rulesEditor // one of the editors, which has no goroutine
	left    [trackedUsers]*history.Key
	steady  [trackedUsers]*history.Key
	content atomic.Int64  // of the last change
	newest  atomic.Uint64 // newest version that was acknowledged

	changing sync.RWMutex // read-locked during a change; locked while no other change may follow one

	mu       sync.Mutex
	contents map[string]int64 // by the hash of the set
	listed   []history.Version
}

// driveRules makes a first set the rules of a cluster, and starts the clients and editors.
func (t *trial) driveRules(ctx context.Context) (*rulesLoad, error) {
	l := &rulesLoad{clock: t.clock, contents: map[string]int64{}}
	for i := range trackedUsers {
		l.left[i], l.steady[i] = ruleKeys(i)
	}
	l.ctx, l.stop = context.WithCancel(ctx)
	addrs := t.load.places()
	for i := range rulesEditors {
		l.editors = append(l.editors, &rulesEditor{client: t.rulesClient(i, addrs, false), load: l})
	}
	if err := await(ctx, startWithin, func() (bool, error) { return l.editors[0].set(false, false) == history.Granted, nil }); err != nil {
		return l, fmt.Errorf("the first rules cannot be set: %v: %w", l.editors[0].errs, err)
	}
	for i, e := range l.editors {
		l.running.Go(func() { e.run(l.ctx, time.Duration(i)*rulesEvery, rulesEditors*rulesEvery) })
	}
	l.heavy = &rulesEditor{client: t.rulesClient(rulesEditors, addrs, false), load: l}
	l.editors = append(l.editors, l.heavy)
	for i := range rulesClientsPerNode * len(addrs) {
		c := &rulesClient{client: t.rulesClient(i, addrs, i%2 == 0), load: l}
		l.clients = append(l.clients, c)
		l.running.Go(func() { c.run(l.ctx) })
	}
	return l, nil
}

// rulesClient returns a client for the load of the rules. It is not part of the load of the trial.
func (t *trial) rulesClient(id int, addrs []string, loyal bool) client {
	return client{
		id: id, addrs: addrs, current: id % len(addrs), loyal: loyal, clock: t.clock,
		random: rand.New(rand.NewPCG(t.lab.seed, uint64(1000+id))), refused: map[string]int{}, lost: map[string]int{},
	}
}

// end stops the clients and editors, and returns their history, and that of the limits.
func (l *rulesLoad) end() (h *history.Rules, ops []history.Op) {
	l.stop()
	l.running.Wait()
	h = &history.Rules{Listed: l.listed}
	for _, e := range l.editors {
		h.Changes = append(h.Changes, e.changes...)
	}
	for _, c := range l.clients {
		h.Decisions = append(h.Decisions, c.decisions...)
		ops = append(ops, c.ops...)
	}
	return h, ops
}

// list adds the versions that the leader lists to the history. A node without a leader lists the versions that it has
// stored, which may not be the newest ones.
func (l *rulesLoad) list(ctx context.Context, t *trial) error {
	return await(ctx, healWithin, func() (bool, error) {
		leader, err := t.leader()
		if err != nil {
			return false, err
		}
		r, err := askOnce(leader.addr(), healWithin, "CL.RULES", "HISTORY", itoa(rulesListed))
		if err != nil {
			return false, err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		list, err := readVersions(&r, func(hash string) int64 {
			if content, known := l.contents[hash]; known {
				return content
			}
			return history.NoContent
		})
		l.listed = append(l.listed, list...)
		return err == nil, err
	})
}

// prepare returns the next set, whose content no other set has.
func (l *rulesLoad) prepare(heavy bool) (content int64, text string) {
	content = l.content.Add(1)
	text = rulesText(content, heavy)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.contents[hashOf(text)] = content
	return content, text
}

// rulesEditor changes the rules at regular intervals.
type rulesEditor struct {
	client
	load    *rulesLoad
	changes []history.Change
	problem string // error of the last change; "" if it was acknowledged
}

func (e *rulesEditor) run(ctx context.Context, after, every time.Duration) {
	defer e.hangUp()
	if !sleep(ctx, after) {
		return
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for n := 0; ; n++ {
		e.load.changing.RLock()
		e.set(n%2 == 1, false)
		e.load.changing.RUnlock()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// editWithin is the timeout of a change. The outcome of a change that takes longer is unknown.
const (
	editWithin  = 2 * time.Second
	heavyWithin = 20 * time.Second // of a heavy set
)

// setHeavy makes a heavy set the rules, through the leader, and calls the function then before any other change follows.
func (l *rulesLoad) setHeavy(t *trial, leader *node, then func() error) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	e := l.heavy
	e.hangUp()
	e.conn, e.current = nil, slices.Index(t.nodes, leader)
	begun := time.Now()
	e.set(false, true)
	t.note("a heavy set, proposed to %s, took %.0f ms; error: %q", leader.id, ms(time.Since(begun)), e.problem)
	return then()
}

// set makes a new set the rules, and records the change. If based is true, the change names the newest known version as
// its base.
func (e *rulesEditor) set(based, heavy bool) history.Outcome {
	content, text := e.load.prepare(heavy)
	within := editWithin
	if heavy {
		within = heavyWithin
	}
	words := []string{"CL.RULES", "SET", text}
	c := history.Change{Content: content, Outcome: history.Limited}
	if base := e.load.newest.Load(); based && base > 0 {
		c.Base = base
		words = append(words, "BASE", fmt.Sprint(base))
	}
	if !e.connected() {
		return c.Outcome
	}
	c.Call = e.clock.now()
	r, err := e.conn.ask(within, words...)
	c.Return = e.clock.now()
	if c.Outcome, c.Version = e.outcome(&r, err); c.Outcome == history.Unknown {
		c.Return = history.Never
	}
	if c.Outcome != history.Granted {
		e.leave()
	}
	for newest := e.load.newest.Load(); newest < c.Version && !e.load.newest.CompareAndSwap(newest, c.Version); {
		newest = e.load.newest.Load()
	}
	e.changes = append(e.changes, c)
	return c.Outcome
}

// late reports whether an error states that a change has taken too long.
func late(text string) bool {
	return strings.Contains(text, "the outcome is unknown") || strings.Contains(text, context.DeadlineExceeded.Error())
}

// staleBase is part of the error for a change whose base is not the newest version.
const staleBase = "is not the newest version"

// outcome returns the outcome of a change, and its version.
func (e *rulesEditor) outcome(r *reply, err error) (history.Outcome, uint64) {
	f, word := fateOf(r, err)
	e.problem = r.text
	if err != nil {
		e.problem = err.Error()
	}
	switch {
	case f == refused:
		e.refused[word]++
		return history.Limited, 0
	case r.kind == '-' && strings.Contains(r.text, staleBase):
		e.refused["base"]++
		return history.Limited, 0
	case f != decided:
		e.lost[word]++
		if f == wrong && !late(r.text) {
			e.complain("CL.RULES SET: %q", r.text)
		}
		return history.Unknown, 0
	}
	for i := 0; i+1 < len(r.list); i += 2 {
		if r.list[i].text == "version" && r.list[i+1].n > 0 {
			return history.Granted, uint64(r.list[i+1].n)
		}
	}
	e.complain("CL.RULES SET: invalid reply %+v", *r)
	return history.Unknown, 0
}

// rulesClient sends CL.CHECK as fast as the replies arrive.
type rulesClient struct {
	client
	load      *rulesLoad
	decisions []history.Decision
	decided   int // replies in decisions
}

func (c *rulesClient) run(ctx context.Context) {
	defer c.hangUp()
	for ctx.Err() == nil {
		if !c.connected() || !c.pipeline() {
			sleep(ctx, rulesRetry)
		}
	}
}

func (c *client) hangUp() {
	if c.conn != nil {
		_ = c.conn.Close()
	}
}

// checkRequest is a CL.CHECK.
type checkRequest struct {
	user      int
	hot, peek bool
}

func (q *checkRequest) words() []string {
	words := []string{"CL.CHECK", rulesDomain}
	if q.peek {
		words = append(words, "PEEK")
	}
	words = append(words, "path", "/a", "user", fmt.Sprint(q.user))
	if q.hot {
		words = append(words, "class", "hot")
	}
	return words
}

// pipeline sends up to rulesPiped requests in one write, and records the replies. It returns false if a reply is missing.
func (c *rulesClient) pipeline() bool {
	reqs := make([]checkRequest, 1+c.random.IntN(rulesPiped))
	var commands [][]string
	for i := range reqs {
		dice := c.random.IntN(100)
		reqs[i] = checkRequest{user: c.random.IntN(rulesUsers), hot: dice < 50, peek: dice%10 == 0}
		commands = append(commands, reqs[i].words())
	}
	node, good := c.current, true
	call, answers := c.exchange(commands)
	for i := range answers {
		good = good && answers[i].fate == decided
		c.recordCheck(&reqs[i], node, call, &answers[i])
	}
	return good
}

// recordCheck records a request with its reply.
func (c *rulesClient) recordCheck(q *checkRequest, node int, call int64, a *answered) {
	f, r := a.fate, &a.reply
	o := history.Op{Client: c.id, Node: node, Call: call, Return: a.at, Quantity: 1}
	if q.peek {
		o.Quantity = 0
	}
	if f == decided && isFailed(r) {
		f = unknown
	}
	switch f {
	case unknown:
		o.Outcome, o.Return = history.Unknown, history.Never
		if q.user < trackedUsers {
			c.keep(o, c.load.left[q.user])
		}
		if q.user < trackedUsers && q.hot {
			c.keep(o, c.load.steady[q.user])
		}
	case decided:
		k, err := readChecked(r)
		if err != nil {
			c.complain("%v", err)
			return
		}
		c.recordVersion(history.Decision{Client: int32(c.id), Node: int32(o.Node), Replies: 1, Call: o.Call, Return: o.Return, Version: k.version, Contents: k.contents()})
		c.recordLimits(q, o, &k)
	}
}

// recordVersion records a decision. It adds the decision to the one before if they are of the same pipeline and version.
func (c *rulesClient) recordVersion(d history.Decision) {
	c.decided++
	if n := len(c.decisions); n > 0 {
		if last := &c.decisions[n-1]; last.Call == d.Call && last.Version == d.Version && last.Contents == d.Contents {
			last.Replies++
			return
		}
	}
	c.decisions = append(c.decisions, d)
}

func (c *rulesClient) keep(o history.Op, k *history.Key) {
	o.Key = k
	c.ops = append(c.ops, o)
}

// recordLimits records the decisions of the limits left and steady.
func (c *rulesClient) recordLimits(q *checkRequest, o history.Op, k *checked) {
	left, found := k.limits[leftLimit]
	if !found || left.limited {
		c.complain("%v: the limit %s is missing, or refuses: %+v", q.words(), leftLimit, *k)
		return
	}
	steady, applies := k.limits[steadyLimit]
	if applies != q.hot || applies && steady.limit != steadyBurst {
		c.complain("%v: limit %s: %+v", q.words(), steadyLimit, *k)
		return
	}
	if q.user >= trackedUsers {
		return
	}
	if applies {
		s := o
		s.Remaining, s.RetryAfter, s.ResetAfter = steady.remaining, steady.retryAfter, steady.resetAfter
		if steady.limited {
			s.Outcome = history.Limited
		}
		c.keep(s, c.load.steady[q.user])
	}
	if k.limited {
		o.Quantity = 0 // not charged: the reply shows the units in use
	}
	o.Remaining = leftUnits - (left.limit - left.remaining)
	c.keep(o, c.load.left[q.user])
}
