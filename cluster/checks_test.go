package cluster

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/throttledhq/throttled/topology"
)

// byKey groups the history of clients by key.
func byKey(ops []op) map[string][]op {
	m := map[string][]op{}
	for _, o := range ops {
		m[o.key] = append(m[o.key], o)
	}
	return m
}

// checkIntervals checks that the quantity admitted for each key in any interval is at most the maximum that the rule
// of the key permits (rule.most). Requests with an unknown outcome do not count.
func checkIntervals(s *sim, ops []op) {
	for key, of := range byKey(ops) {
		if rules[key[0]].most != nil {
			checkIntervalsOf(s, key, of, rules[key[0]])
		}
	}
}

func checkIntervalsOf(s *sim, key string, ops []op, r rule) {
	ops = slices.DeleteFunc(slices.Clone(ops), func(o op) bool { return o.outcome != granted || o.quantity == 0 })
	slices.SortFunc(ops, func(a, b op) int { return cmp.Compare(a.ret, b.ret) })
	begins := ops
	if r.solid && len(ops) > 0 {
		begins = []op{slices.MinFunc(ops, func(a, b op) int { return cmp.Compare(a.call, b.call) })}
	}
	for _, begin := range begins {
		var sum int64
		for _, o := range ops {
			if o.call < begin.call {
				continue
			}
			sum += o.quantity
			if allowed := r.most(o.ret - begin.call); sum > allowed {
				s.t.Errorf("key %s: %d units admitted from %v to %v, want at most %d", key, sum, begin.call, o.ret, allowed)
				return
			}
		}
	}
}

// checkOrder checks keys whose units are not restored (rule.solid). The remaining units of such a key must never
// increase: no two admitted charges leave the same number of units, and no reply shows more units than a reply that was
// received before the request was sent. If peeks is true, requests that charge nothing are checked, too.
func checkOrder(s *sim, ops []op, peeks bool) {
	for key, of := range byKey(ops) {
		if rules[key[0]].solid {
			checkOrderOf(s, key, of, peeks)
		}
	}
}

func checkOrderOf(s *sim, key string, ops []op, peeks bool) {
	ops = slices.DeleteFunc(slices.Clone(ops), func(o op) bool { return o.outcome != granted && o.outcome != denied })
	calls := slices.Clone(ops)
	slices.SortFunc(ops, func(a, b op) int { return cmp.Compare(a.ret, b.ret) })
	slices.SortFunc(calls, func(a, b op) int { return cmp.Compare(a.call, b.call) })
	seen := map[int64]bool{}
	least, returned := rules[key[0]].limit.Max, 0
	for _, o := range calls {
		for ; returned < len(ops) && ops[returned].ret < o.call; returned++ {
			if charges(ops[returned]) || peeks {
				least = min(least, ops[returned].remaining)
			}
		}
		switch {
		case charges(o) && seen[o.remaining]:
			s.t.Errorf("key %s: two admitted charges left %d units; the later one was sent at %v and answered at %v", key, o.remaining, o.call, o.ret)
		case charges(o) && o.remaining >= least, peeks && o.remaining > least:
			s.t.Errorf("key %s: a request sent at %v and answered at %v shows %d remaining units, but an earlier reply shows %d (the request charged units: %v)", key, o.call, o.ret, o.remaining, least, charges(o))
		default:
			seen[o.remaining] = seen[o.remaining] || charges(o)
			continue
		}
		return
	}
}

func charges(o op) bool { return o.outcome == granted && o.quantity > 0 }

// checkUsed checks the final state of each key whose units are not restored (rule.solid). The state must contain all
// acknowledged charges, and no other charges except uncertain ones.
func checkUsed(s *sim, ops []op) {
	leader := s.leader()
	for key, of := range byKey(ops) {
		if !rules[key[0]].solid {
			continue
		}
		var sure, maybe int64
		for _, o := range of {
			switch o.outcome {
			case granted:
				sure += o.quantity
			case unknown:
				maybe += o.quantity
			case refused, denied:
			}
		}
		d, err := charge(leader.Node, key, 0)
		if used := rules[key[0]].limit.Max - d.Remaining; err != nil || used < sure || used > sure+maybe {
			s.t.Errorf("key %s: %d units used, want at least the %d acknowledged units and at most %d uncertain units more; error %v", key, used, sure, maybe, err)
		}
	}
}

// checkLog checks that log time never decreases from one entry to the next. If honest is true, no wall clock was wrong.
// In this case checkLog also checks that log time is never ahead of real time and never runs faster than real time. It
// returns the time by which log time is behind real time at the last entry.
func checkLog(s *sim, honest bool) (lag time.Duration) {
	for _, l := range s.processes() {
		s.noteCommitted(l, l.Status().Committed)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var last entryNote
	for _, index := range slices.Sorted(maps.Keys(s.committed)) {
		e, found := s.entries[[2]uint64{index, s.committed[index]}]
		if !found || !e.changes || e.void {
			continue
		}
		if e.time < last.time {
			s.t.Errorf("log time decreases by %v at entry %d", time.Duration(last.time-e.time), index)
		}
		lag = e.stored.Sub(time.Unix(0, int64(e.time)))
		if honest && lag < 0 {
			s.t.Errorf("log time is %v ahead of real time at entry %d", -lag, index)
		}
		if gained := int64(e.time-last.time) - (e.wall - last.wall); honest && last.changes && gained > 0 {
			s.t.Errorf("log time advances by %v more than real time from the previous entry to entry %d", time.Duration(gained), index)
		}
		last = e
	}
	return lag
}

// watcher compares the states of nodes while a simulation runs.
type watcher struct {
	sim  *sim
	stop chan struct{}
	once sync.Once
	done sync.WaitGroup
	seen map[uint64]topology.Fingerprint
}

func watch(s *sim) *watcher {
	w := &watcher{sim: s, stop: make(chan struct{}), seen: map[uint64]topology.Fingerprint{}}
	w.done.Go(w.run)
	return w
}

func (w *watcher) run() {
	for {
		for _, l := range w.sim.processes() {
			w.look(l)
		}
		select {
		case <-w.stop:
			return
		case <-time.After(40 * time.Millisecond):
		}
	}
}

func (w *watcher) look(l *process) {
	f := l.Fingerprint()
	if f.Index < l.exactFrom.Load() {
		return
	}
	if first, seen := w.seen[f.Index]; seen && first != f {
		w.sim.t.Errorf("%s: state %+v, but another node had %+v after the same entry", l.node.id, f, first)
	}
	w.seen[f.Index] = f
}

func (w *watcher) end() {
	w.once.Do(func() { close(w.stop) })
	w.done.Wait()
}
