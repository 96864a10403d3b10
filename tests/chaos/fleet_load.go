package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

// workload selects the requests of the clients of a fleet.
type workload interface {
	// send sends a pipeline of requests, and records the replies.
	send(c *client)
	// settled checks the state of the limits after the load, whose requests are ops.
	settled(ctx context.Context, f *fleet, ops []history.Op) []finding
}

// fleetLoad is the load of clients of sidecars and of nodes on a few limits in demand.
type fleetLoad struct {
	workload
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
	for _, w := range []struct {
		mode  string
		limit int64
	}{{"FIXED", 400}, {"SLIDING", 500}, {"BUCKETS", 350}, {"LOG", 330}} {
		keys = append(keys, windowOf(w.mode, "leased:"+w.mode, w.limit, 2))
	}
	return append(keys, bucketOf("leased:bucket", 300, 100, 1))
}

// refunded returns limits of every algorithm on keys that are also refunded and deleted.
func refunded() (keys []windowKey) {
	for _, k := range leasable() {
		if k.words[0] == "CL.THROTTLE" && k.of.Count != 40 {
			continue
		}
		const more = 2 // units, so that the limits differ
		of := *k.of
		of.Name, of.MaxBurst = "refunded"+strings.TrimPrefix(of.Name, "leased"), of.MaxBurst+more*(of.Limit()/k.limit)
		words := slices.Clone(k.words)
		first, _ := strconv.ParseInt(words[2], 10, 64) // the burst or the limit
		words[1], words[2] = of.Name, itoa(first+more)
		keys = append(keys, windowKey{&of, k.limit + more, words, k.mode})
	}
	return keys
}

// load starts clients. Together they send the given number of pipelines per second (rate) until end is called.
func (f *fleet) load(ctx context.Context, rate int, w workload) *fleetLoad {
	l := &fleetLoad{workload: w}
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
				l.send(c)
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

// singles is the workload of the scenario sidecars: most of its requests have one limit.
type singles struct {
	keys    []windowKey
	refunds []windowKey // keys that are also refunded and deleted
}

func newSingles(context.Context, *fleet) (workload, error) {
	return &singles{leasable(), refunded()}, nil
}

// send sends a pipeline of requests, and sometimes instead a group of two requests, a refund or a DEL.
func (l *singles) send(c *client) {
	one, other := &l.keys[c.random.IntN(len(l.keys))], &l.keys[c.random.IntN(len(l.keys))]
	again := &l.refunds[c.random.IntN(len(l.refunds))]
	switch dice := c.random.IntN(300); {
	case dice < 30 && one != other:
		c.charge(allOf(one, other))
	case dice < 36:
		c.decide(again.request(-1 - c.random.Int64N(again.limit/16)))
	case dice < 37:
		c.forget(again.of)
	default:
		c.decide(l.requests(c)...)
	}
}

// requests returns a pipeline of requests on different keys.
func (l *singles) requests(c *client) (reqs []request) {
	all := slices.Concat(l.keys, l.refunds)
	for _, i := range c.random.Perm(len(all))[:1+c.random.IntN(len(l.keys))] {
		reqs = append(reqs, all[i].request(c.quantity()))
	}
	return reqs
}

// settled checks that all limits are restored, and that leases were used.
func (l *singles) settled(ctx context.Context, f *fleet, _ []history.Op) (findings []finding) {
	var peeks []peek
	for _, k := range slices.Concat(l.keys, l.refunds) {
		peeks = append(peeks, k.peek())
	}
	if err := f.restored(ctx, peeks); err != nil {
		findings = append(findings, finding{"restored", err.Error()})
	}
	if err := f.sums.pressure(); err != nil {
		findings = append(findings, finding{"pressure", err.Error()})
	}
	return findings
}

// count counts the decisions that a client has recorded since the last call, and keeps only those that the checks need:
// requests that were admitted, refunded or deleted, or may have been.
func (l *fleetLoad) count(c *client) {
	kept := c.ops[:c.counted]
	for _, o := range c.ops[c.counted:] {
		if o.Outcome != history.Unknown {
			l.decided.Add(1)
		}
		if o.Outcome == history.Limited {
			l.limited.Add(1)
		}
		if o.Charges() || o.Restores() > 0 || o.Outcome == history.Unknown {
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
