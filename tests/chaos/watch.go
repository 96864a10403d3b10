package main

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/check"
)

// watchEvery is the interval at which each node is asked whether it is the leader.
const watchEvery = 50 * time.Millisecond

// watch polls all nodes of a cluster to find out which of them are leaders.
type watch struct {
	mu    sync.Mutex
	terms check.Terms
	twice []error // terms with two leaders
	asked []*node
	done  sync.WaitGroup
	ctx   context.Context // canceled by stop
	stop  context.CancelFunc
}

// watch starts watching.
func (c *cluster) watch(ctx context.Context) *watch {
	w := &watch{}
	w.ctx, w.stop = context.WithCancel(ctx)
	w.cover(c)
	return w
}

// cover watches the nodes that were added since the last call.
func (w *watch) cover(c *cluster) {
	for _, n := range c.nodes {
		if !slices.Contains(w.asked, n) {
			w.asked = append(w.asked, n)
			w.done.Go(func() { w.follow(w.ctx, n) })
		}
	}
}

// end stops watching.
func (w *watch) end() {
	w.stop()
	w.done.Wait()
}

func (w *watch) follow(ctx context.Context, n *node) {
	var link *conn
	for sleep(ctx, watchEvery) {
		if link == nil {
			if link, _ = dial(n.addr()); link == nil {
				continue // the node is down or cut off
			}
		}
		r, err := link.ask(patience, "INFO", "replication")
		if err != nil {
			_ = link.Close()
			link = nil
			continue
		}
		if info := fields(r.text); leads(info) {
			w.observe(termOf(info), n.id)
		}
	}
	if link != nil {
		_ = link.Close()
	}
}

func (w *watch) observe(term uint64, id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.terms.Observe(term, id); err != nil {
		w.twice = append(w.twice, err)
	}
}

// changes returns the number of leader changes.
func (w *watch) changes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.terms.Changes()
}

// seen reports whether any leader was observed.
func (w *watch) seen() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.terms.Seen()
}

// span returns the number of terms since the term of the first observed leader.
func (w *watch) span() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.terms.Span()
}

// leads reports whether info was returned by a leader.
func leads(info map[string]string) bool { return info["role"] == "master" }

func termOf(info map[string]string) uint64 { return number(info, "raft_term") }

// number returns a numeric field of INFO, or 0 if it is missing.
func number(info map[string]string, name string) uint64 {
	n, _ := strconv.ParseUint(info[name], 10, 64)
	return n
}
