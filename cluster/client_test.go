package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/throttledhq/throttled/gcra"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/tokenbucket"
	"github.com/throttledhq/throttled/windowlog"
)

// outcome is the result of a request from the client's point of view.
type outcome int

const (
	refused outcome = iota // the request failed, and nothing was charged
	denied                 // the limit was exceeded
	granted                // admitted
	unknown                // the charge may or may not be in effect
)

// op is one request of a client.
type op struct {
	key       string
	quantity  int64
	call, ret time.Duration // times of the call and of the result, since the start of the simulation
	outcome   outcome
	remaining int64
	leased    bool // quantity is the number of units of a lease
}

// rule is a limit with its guarantees.
type rule struct {
	kind  limiter.Kind
	limit limiter.Limit
	// most returns the maximum quantity that may be admitted in any interval of the given length.
	most func(d time.Duration) int64
	// solid means that no units are restored during a simulation.
	solid bool
	// leased means that some requests draw leases.
	leased bool
}

func must(l limiter.Limit, err error) limiter.Limit {
	if err != nil {
		panic(err)
	}
	return l
}

// rules are the limits of simulated clients, by the first letter of a key.
var rules = func() map[byte]rule {
	solid := must(gcra.NewLimit(4999, 1, limiter.Seconds(1e6)))
	tight := must(gcra.NewLimit(99, 1, limiter.Seconds(1e6)))
	fast := must(gcra.NewLimit(4, 40, limiter.Seconds(1)))
	junk := must(gcra.NewLimit(0, 1, limiter.Period{N: 300, Unit: time.Millisecond}))
	log := must(windowlog.NewLimit(40, limiter.Seconds(2), 64))
	bucket := must(tokenbucket.NewLimit(10, 3, limiter.Period{N: 500, Unit: time.Millisecond}))
	drip := func(l limiter.Limit) func(time.Duration) int64 {
		return func(d time.Duration) int64 { return l.Max + int64(d/l.Interval) }
	}
	return map[byte]rule{
		's': {limiter.Throttle, solid, drip(solid), true, false},
		't': {limiter.Throttle, tight, drip(tight), true, false},
		'f': {limiter.Throttle, fast, drip(fast), false, false},
		'j': {limiter.Throttle, junk, drip(junk), false, false},
		'l': {limiter.WindowLog, log, func(d time.Duration) int64 { return 40 * (int64(d/(2*time.Second)) + 1) }, false, true},
		'b': {limiter.TokenBucket, bucket, func(d time.Duration) int64 { return 10 + 3*(int64(d/bucket.Interval)+1) }, false, true},
		'w': {limiter.Throttle, solid, nil, false, false}, // keys are sometimes deleted, so there are no guarantees
	}
}()

// clients are all virtual clients of a simulation.
type clients struct {
	sim  *sim
	stop chan struct{}
	once sync.Once
	all  sync.WaitGroup

	mu  sync.Mutex
	ops []op
}

// runClients starts virtual clients.
func runClients(s *sim, n int) *clients {
	c := &clients{sim: s, stop: make(chan struct{})}
	for range n {
		c.all.Go(c.run)
	}
	return c
}

func (c *clients) end() {
	c.once.Do(func() { close(c.stop) })
	c.all.Wait()
}

// run sends one request after another.
func (c *clients) run() {
	for {
		pause := rand.N(20 * time.Millisecond)
		if !c.ask(c.draw()) {
			pause += 5 * time.Millisecond
		}
		select {
		case <-c.stop:
			return
		case <-time.After(pause):
		}
	}
}

// draw returns random requests, sometimes linked to a group.
func (c *clients) draw() (reqs []limiter.Request) {
	n := 1 + max(0, rand.IntN(8)-4)
	seen := map[string]bool{}
	for len(reqs) < n {
		key := drawKey()
		if seen[key] {
			continue
		}
		seen[key] = true
		r := rules[key[0]]
		reqs = append(reqs, limiter.Request{Kind: r.kind, Key: []byte(key), Limit: r.limit, Quantity: 1})
	}
	switch {
	case rand.IntN(4) == 0:
		for i := range n - 1 {
			reqs[i].Linked = true
		}
	case rand.IntN(4) == 0:
		reqs[0].Quantity = 0
	case rules[reqs[0].Key[0]].leased:
		reqs[0].Quantity = 1 + rand.Int64N(4)
		reqs[0].Draw = &limiter.Draw{ID: 1 + rand.Uint64N(1<<62), User: "app", Lessee: "lessee", Hold: limiter.MinHold + rand.N(limiter.MaxHold-limiter.MinHold)}
	}
	return reqs
}

func drawKey() string {
	kinds := "sssstfffjjlbw"
	kind := kinds[rand.IntN(len(kinds))]
	n := 4
	if kind == 'j' {
		n = 100
	}
	return fmt.Sprintf("%c%d", kind, rand.IntN(n))
}

// ask sends requests to a node, and reports whether the node answered them without an error within 100 ms.
func (c *clients) ask(reqs []limiter.Request) bool {
	l := c.pick()
	if l == nil {
		return false
	}
	done := make(chan bool, 1)
	c.all.Go(func() { done <- c.askNode(l, reqs) })
	select {
	case decided := <-done:
		return decided
	case <-time.After(100 * time.Millisecond):
		return false // the outcome is recorded when it is known
	}
}

// askNode sends requests to a node without a timeout.
func (c *clients) askNode(l *process, reqs []limiter.Request) bool {
	call := time.Since(c.sim.begun)
	if !l.resumed() {
		return false
	}
	if rand.IntN(40) == 0 {
		_, _ = l.Delete([]byte(fmt.Sprintf("w%d", rand.IntN(4)))) // fails if the node is not the leader
	}
	out := make([]limiter.Decision, len(reqs))
	token := l.Decide(reqs, out)
	lost := !l.resumed()
	err := l.WaitCommitted(token)
	if !l.resumed() || lost {
		err = limiter.ErrUncertain // the process is no longer running
	}
	ret := time.Since(c.sim.begun)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range reqs {
		o := op{
			key: string(reqs[i].Key), quantity: reqs[i].Quantity, call: call, ret: ret,
			outcome: judge(&out[i], err), remaining: out[i].Remaining,
		}
		o.setLease(reqs[i].Draw)
		if reqs[0].Linked && slices.ContainsFunc(out, func(d limiter.Decision) bool { return d.Limited }) {
			o.quantity = 0 // a refused group charges nothing
		}
		c.ops = append(c.ops, o)
	}
	return err == nil
}

// setLease makes the op of a draw that of the units granted: they are spent before the end of the lease. A draw that grants
// nothing is denied.
func (o *op) setLease(d *limiter.Draw) {
	if d == nil || o.outcome == refused || o.outcome == unknown {
		return
	}
	if d.Granted == 0 {
		o.outcome = denied
		return
	}
	o.outcome, o.quantity, o.leased, o.ret = granted, d.Granted, true, max(o.ret, o.call+d.Valid-d.Valid/500)
}

func judge(d *limiter.Decision, err error) outcome {
	switch {
	case d.Err != nil || errors.Is(err, limiter.ErrNotLeading):
		return refused
	case err != nil && !d.Limited:
		return unknown
	case err != nil:
		return refused // nothing was charged
	case d.Limited:
		return denied
	}
	return granted
}

// pick returns a random node, usually the leader.
func (c *clients) pick() *process {
	processes := c.sim.processes()
	if len(processes) == 0 {
		return nil
	}
	l := processes[rand.IntN(len(processes))]
	for range 3 {
		if l.View().Leading {
			break
		}
		l = processes[rand.IntN(len(processes))]
	}
	return l
}

// ask1 charges one unit, and waits for the commit.
func ask1(n *Node, key string) (limiter.Decision, error) { return charge(n, key, 1) }

// charge charges a quantity by the rule of a key.
func charge(n *Node, key string, quantity int64) (limiter.Decision, error) {
	r := rules[key[0]]
	out := make([]limiter.Decision, 1)
	t := n.Decide([]limiter.Request{{Kind: r.kind, Key: []byte(key), Limit: r.limit, Quantity: quantity}}, out)
	if out[0].Err != nil {
		return out[0], out[0].Err
	}
	return out[0], n.WaitCommitted(t)
}

// grant charges one unit and returns the remaining units. The test fails if the charge is not admitted.
func (s *sim) grant(l *process, key string) int64 {
	s.t.Helper()
	d, err := ask1(l.Node, key)
	if err != nil || d.Limited {
		s.t.Fatalf("node %s, key %s: the charge was not admitted: decision %+v, error %v", l.node.id, key, d, err)
	}
	return d.Remaining
}

// remaining returns the remaining units of a key.
func (s *sim) remaining(l *process, key string) int64 {
	s.t.Helper()
	d, err := charge(l.Node, key, 0)
	if err != nil {
		s.t.Fatalf("node %s, key %s: cannot read the remaining units: %v", l.node.id, key, err)
	}
	return d.Remaining
}
