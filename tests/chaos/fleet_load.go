package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

// fleetLoad is the load of clients of sidecars and of nodes on a few limits in demand.
type fleetLoad struct {
	clock   clock
	keys    []windowKey
	clients []*client
	decided atomic.Int64 // decisions so far
	limited atomic.Int64 // those of them that refused a request
	stop    context.CancelFunc
	running sync.WaitGroup
}

// clientsPerSidecar is the number of clients of each sidecar. Each node has one client.
const clientsPerSidecar = 3

// leasable returns limits of every algorithm. At the usual rate, some of them are exhausted all the time, and some never.
// All of them have different limits, so that a reply to the wrong request is detected. All of them
// are leased.
func leasable() (keys []windowKey) {
	for _, rate := range []int64{40, 100, 250, 600, 1500} {
		k := &history.Key{Name: "leased:" + itoa(rate), MaxBurst: 3 * rate, Count: rate, Period: time.Second}
		keys = append(keys, windowKey{k, k.Limit(), ofKey(k, 1).words[:5], nil})
	}
	const period = 2
	long := period * time.Second
	window := func(mode string, limit int64, form history.Form, burst int64, length time.Duration, rest ...string) {
		k := &history.Key{Name: "leased:" + mode, Form: form, MaxBurst: burst - 1, Count: limit, Period: length}
		words := []string{"CL.WINDOW", k.Name, itoa(limit), itoa(period)}
		keys = append(keys, windowKey{k, limit, words, append([]string{mode}, rest...)})
	}
	// The comment of windows explains the bounds.
	window("FIXED", 400, history.Bound, 2*400, long)
	window("SLIDING", 500, history.Bound, 2*500, long)
	window("BUCKETS", 350, history.Window, 350, long/windowParts*(windowParts-1), itoa(windowParts))
	window("LOG", 300, history.Window, 300, long)
	const capacity, refill = 300, 100
	bucket := &history.Key{Name: "leased:bucket", Form: history.Bound, MaxBurst: capacity + refill - 1, Count: refill, Period: time.Second}
	return append(keys, windowKey{bucket, capacity, []string{"CL.BUCKET", bucket.Name, itoa(capacity), itoa(refill), "1"}, nil})
}

// load starts clients. Together they send the given number of pipelines per second (rate) until end is called.
func (f *fleet) load(ctx context.Context, rate int) *fleetLoad {
	l := &fleetLoad{clock: f.clock, keys: leasable()}
	var addrs []string
	for _, n := range f.nodes {
		addrs = append(addrs, n.addr())
	}
	for _, s := range f.sidecars {
		for range clientsPerSidecar {
			addrs = append(addrs, s.addr())
		}
	}
	every := time.Duration(len(addrs)) * time.Second / time.Duration(rate)
	ctx, l.stop = context.WithCancel(ctx)
	for i, addr := range addrs {
		c := newLoyal(i, addr, f.clock, f.lab.seed)
		l.clients = append(l.clients, c)
		l.running.Go(func() {
			c.repeat(ctx, every, func() {
				c.decide(l.requests(c)...)
				l.count(c)
			})
		})
	}
	return l
}

// newLoyal returns a client that uses one address only, and has no load.
func newLoyal(id int, addr string, clock clock, seed uint64) *client {
	return &client{
		id: id, addrs: []string{addr}, loyal: true, clock: clock, random: rand.New(rand.NewPCG(seed, uint64(id))),
		refused: map[string]int{}, lost: map[string]int{},
	}
}

// requests returns a pipeline of requests on different keys.
func (l *fleetLoad) requests(c *client) (reqs []request) {
	for _, i := range c.random.Perm(len(l.keys))[:1+c.random.IntN(len(l.keys))] {
		reqs = append(reqs, l.keys[i].request(c.quantity()))
	}
	return reqs
}

// count counts the decisions that a client has recorded since the last call, and keeps only those that the checks need:
// requests that were admitted, or may have been.
func (l *fleetLoad) count(c *client) {
	kept := c.ops[:c.counted]
	for _, o := range c.ops[c.counted:] {
		if o.Outcome != history.Unknown {
			l.decided.Add(1)
		}
		if o.Outcome == history.Limited {
			l.limited.Add(1)
		}
		if o.Charges() || o.Outcome == history.Unknown {
			kept = append(kept, o)
		}
	}
	c.ops, c.counted = kept, len(kept)
}

// end stops the clients, and returns the requests that were or may have been admitted.
func (l *fleetLoad) end() (ops []history.Op) {
	l.stop()
	l.running.Wait()
	for _, c := range l.clients {
		ops = append(ops, c.ops...)
	}
	return ops
}
