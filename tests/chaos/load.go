package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

// load is the set of clients of a run.
type load struct {
	clients []*client
	keys    *keyring
	decided atomic.Int64 // decisions so far
	failed  atomic.Int64 // requests without a decision so far, including failed dials
	clock   clock
	begun   int64
	ended   int64
	stop    context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	addrs  []string // of all nodes; replaced by a longer slice, never modified
	linear map[history.Key]*history.Key
	held   bool         // requests are suspended
	extra  []history.Op // requests that the clients did not record
}

// wanderers is the number of clients that move from node to node. In addition, each
// initial node has one loyal client.
const wanderers = 9

// drive starts clients. Together they send the given number of requests per second (rate) until end is
// called.
func (c *cluster) drive(ctx context.Context, rate int) *load {
	l := &load{keys: newKeyring(), clock: c.clock, begun: c.clock.now(), linear: map[history.Key]*history.Key{}}
	l.cover(c)
	addrs := l.places()
	count := wanderers + len(addrs)
	every := time.Duration(count) * time.Second / time.Duration(rate)
	ctx, l.stop = context.WithCancel(ctx)
	for i := range count {
		w := &client{
			id: i, addrs: addrs, current: i % len(addrs), loyal: i < len(addrs), clock: c.clock, keys: l.keys,
			random: rand.New(rand.NewPCG(c.lab.seed, uint64(i))), load: l,
			pairs: make([]pairCount, pairKeys), refused: map[string]int{}, lost: map[string]int{},
		}
		l.clients = append(l.clients, w)
		l.running.Go(func() { w.run(ctx, every) })
	}
	return l
}

// cover adds the addresses of nodes that were added to the cluster since the last call.
func (l *load) cover(c *cluster) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addrs = slices.Clone(l.addrs)
	for _, n := range c.nodes {
		if !slices.Contains(l.addrs, n.addr()) {
			l.addrs = append(l.addrs, n.addr())
		}
	}
}

// places returns the addresses of all nodes so far. The caller must not modify the slice.
func (l *load) places() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.addrs
}

// share returns the same pointer for all keys that are equal to k.
func (l *load) share(k history.Key) *history.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.linear[k] == nil {
		l.linear[k] = &k
	}
	return l.linear[k]
}

// hold suspends or resumes the requests of all clients.
func (l *load) hold(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = on
}

func (l *load) onHold() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// add adds requests that the clients did not record.
func (l *load) add(ops []history.Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.extra = append(l.extra, ops...)
}

// end stops the clients and returns all recorded requests.
func (l *load) end() []history.Op {
	l.stop()
	l.running.Wait()
	l.ended = l.clock.now()
	all := l.extra
	for _, c := range l.clients {
		all = append(all, c.ops...)
	}
	return all
}

// tally is the sum of the clients' counters.
type tally struct {
	decided, limited, unknown int
	refused, lost             map[string]int
	downs, piped, cutOff      int
	pairs                     []pairCount
	errs                      []string
}

// tally returns the sum of the clients' counters. It must be called after end.
func (l *load) tally() tally {
	t := tally{refused: map[string]int{}, lost: map[string]int{}, pairs: make([]pairCount, pairKeys)}
	for _, c := range l.clients {
		for i := range c.ops {
			switch c.ops[i].Outcome {
			case history.Limited:
				t.limited++
				t.decided++
			case history.Granted:
				t.decided++
			case history.Unknown:
				t.unknown++
			}
		}
		for word, n := range c.refused {
			t.refused[word] += n
		}
		for word, n := range c.lost {
			t.lost[word] += n
		}
		for i, p := range c.pairs {
			t.pairs[i].charged += p.charged
			t.pairs[i].open += p.open
		}
		t.downs, t.piped, t.cutOff = t.downs+c.downs, t.piped+c.piped, t.cutOff+c.cutOff
		t.errs = append(t.errs, c.errs...)
	}
	return t
}
