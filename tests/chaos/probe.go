package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

// probeEvery is the interval between the requests of a probe. It is also the resolution of
// the measurements.
const probeEvery = 4 * time.Millisecond

// probe sends requests to one node continuously to detect times without decisions.
type probe struct {
	node  *node
	clock clock

	mu    sync.Mutex
	oks   []history.Op
	fails []failure
}

// failure is a request that was not decided.
type failure struct {
	at   int64 // time at which the request was sent
	word string
}

// probes holds one probe for each node.
type probes struct {
	all     []*probe
	ctx     context.Context // canceled by stop
	stop    context.CancelFunc
	running sync.WaitGroup
}

func (c *cluster) probe(ctx context.Context) *probes {
	p := &probes{}
	p.ctx, p.stop = context.WithCancel(ctx)
	p.cover(c)
	return p
}

// cover starts probes of the nodes that were added since the last call.
func (p *probes) cover(c *cluster) {
	for _, n := range c.nodes {
		if slices.ContainsFunc(p.all, func(one *probe) bool { return one.node == n }) {
			continue
		}
		one := &probe{node: n, clock: c.clock}
		p.all = append(p.all, one)
		p.running.Go(func() { one.run(p.ctx) })
	}
}

func (p *probes) end() {
	p.stop()
	p.running.Wait()
}

func (p *probe) run(ctx context.Context) {
	var link *conn
	for sleep(ctx, probeEvery) {
		call := p.clock.now()
		if link == nil {
			var err error
			if link, err = dial(p.node.addr()); err != nil {
				p.fail(call, "no connection")
				link = nil
				continue
			}
			call = p.clock.now()
		}
		r, err := link.ask(patience, "CL.THROTTLE", "probe:"+p.node.id, "1000000", "1000000", "1")
		if f, word := fateOf(&r, err); f == decided {
			p.ok(call)
		} else {
			p.fail(call, word)
			if err != nil {
				_ = link.Close()
				link = nil
			}
		}
	}
	if link != nil {
		_ = link.Close()
	}
}

func (p *probe) ok(call int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.oks = append(p.oks, history.Op{Call: call, Return: p.clock.now()})
}

func (p *probe) fail(call int64, word string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fails = append(p.fails, failure{call, word})
}

// firstAfter returns the time of the first decision on a request that was sent after the given
// moment, or 0 if there is none. It ignores requests to one node (except).
func (p *probes) firstAfter(moment int64, except *node) (first int64) {
	for _, one := range p.all {
		one.mu.Lock()
		for i := len(one.oks) - 1; i >= 0 && one.oks[i].Call >= moment && one.node != except; i-- {
			if at := one.oks[i].Return; first == 0 || at < first {
				first = at
			}
		}
		one.mu.Unlock()
	}
	return first
}

// decisions returns all requests that were decided. It ignores requests to one node (except).
func (p *probes) decisions(except *node) (ops []history.Op) {
	for _, one := range p.all {
		one.mu.Lock()
		if one.node != except {
			ops = append(ops, one.oks...)
		}
		one.mu.Unlock()
	}
	return ops
}

// probeOne starts a separate probe of one node. The returned function, end, stops the probe.
func (c *cluster) probeOne(ctx context.Context, n *node) (p *probe, end func()) {
	all := &probes{all: []*probe{{node: n, clock: c.clock}}}
	ctx, all.stop = context.WithCancel(ctx)
	all.running.Go(func() { all.all[0].run(ctx) })
	return all.all[0], all.end
}

// failed counts the requests that were sent in the interval [from, to] and were not decided, by the
// first word of the error. It ignores requests to one node (except).
func (p *probes) failed(from, to int64, except *node) map[string]int {
	words := map[string]int{}
	for _, one := range p.all {
		one.mu.Lock()
		for _, f := range one.fails {
			if f.at >= from && f.at <= to && one.node != except {
				words[f.word]++
			}
		}
		one.mu.Unlock()
	}
	return words
}
