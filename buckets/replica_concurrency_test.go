package buckets

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// logEntry is a closed generation in the log of a replicaPair.
type logEntry struct {
	epoch   uint64
	number  uint64
	changes []byte
}

// replicaPair consists of two tables and a log between them. One table is the follower. The other is the leader. At the
// end of each epoch the leader becomes a follower, which rolls back its uncommitted generations, and then the leader
// again.
type replicaPair struct {
	testing.TB
	leader, follower *Table
	check            func()        // called after each replay on the follower
	kick, view       chan struct{} // kick: collect a generation; view: read the committed records

	epochMu   sync.Mutex // held while a generation is closed or an epoch starts
	mu        sync.Mutex
	moved     sync.Cond // signals changes of the following fields
	epoch     uint64
	committed map[uint64]uint64 // by epoch: the latest committed generation
	over      uint64            // the latest epoch that has ended
	lost      []logEntry        // closed generations that could not be committed in their epoch
	entries   int
}

func newReplicaPair(tb testing.TB, clock Clock) *replicaPair {
	r := &replicaPair{
		TB:        tb,
		leader:    New(Config{Clock: clock, Replicated: true, Shards: 16}),
		follower:  New(Config{Clock: clock, Replicated: true, Shards: 4}),
		committed: map[uint64]uint64{},
		epoch:     1,
		check:     func() {},
		kick:      make(chan struct{}, 1),
		view:      make(chan struct{}, 1),
	}
	r.moved.L = &r.mu
	r.leader.Lead(1)
	return r
}

// poke sends without blocking.
func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// await waits until the generation of a CommitToken is committed or its epoch has ended, and reports whether the
// generation is committed.
func (r *replicaPair) await(t limiter.CommitToken) bool {
	if t.Generation == 0 {
		return t.Epoch > 0
	}
	poke(r.kick)
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.committed[t.Epoch] < t.Generation && r.over < t.Epoch {
		r.moved.Wait()
	}
	return r.committed[t.Epoch] >= t.Generation
}

// flush collects generations until ctx is done.
func (r *replicaPair) flush(ctx context.Context, log chan<- logEntry) {
	defer close(log)
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.kick:
		}
		r.epochMu.Lock()
		e := logEntry{epoch: r.epoch}
		e.number, e.changes = r.leader.Collect(nil)
		r.epochMu.Unlock()
		if e.number > 0 {
			log <- e
		}
	}
}

// apply commits the generations of the log.
func (r *replicaPair) apply(log <-chan logEntry, changeEpoch chan<- struct{}) {
	defer close(changeEpoch)
	for e := range log {
		r.mu.Lock()
		r.commitEntry(e)
		poke(r.view)
		if len(e.changes) > 0 {
			if r.entries++; r.entries%40 == 0 {
				changeEpoch <- struct{}{}
			}
		}
		r.mu.Unlock()
	}
}

// commitEntry commits a generation and replays it on the follower. If the generation cannot be committed, commitEntry
// adds it to r.lost.
func (r *replicaPair) commitEntry(e logEntry) {
	switch {
	case e.epoch != r.epoch:
	case len(r.lost) > 0 || !r.leader.Commit(e.number, start):
		r.lost = append(r.lost, e)
	default:
		r.replay(r.follower, e)
		r.committed[e.epoch] = e.number
		r.moved.Broadcast()
	}
}

func (r *replicaPair) replay(t *Table, e logEntry) {
	if err := t.Replay(e.changes, start); err != nil {
		r.Error(err)
	}
	if t == r.follower {
		r.check()
	}
}

// changeEpochs ends the current epoch and starts the next one, once per value received.
func (r *replicaPair) changeEpochs(changeEpoch <-chan struct{}) {
	rnd := rand.New(rand.NewPCG(1, 3))
	for range changeEpoch {
		r.leader.Follow()
		r.epochMu.Lock()
		r.mu.Lock()
		for _, e := range r.lost[:rnd.IntN(len(r.lost)+1)] { // these are committed although the leader rolled them back
			r.replay(r.leader, e)
			r.replay(r.follower, e)
		}
		r.lost = nil
		r.over = r.epoch
		r.epoch++
		if a, b := sumOf(r.leader), sumOf(r.follower); a != b {
			r.Errorf("after epoch %d: hash and number of keys are %v on the leader, %v on the follower; want the same", r.over, a, b)
		}
		r.leader.Lead(r.epoch)
		r.moved.Broadcast()
		r.mu.Unlock()
		r.epochMu.Unlock()
	}
}

// decide retries a batch until the table is the leader.
func (r *replicaPair) decide(out []limiter.Decision, reqs ...limiter.Request) limiter.CommitToken {
	for {
		token := r.leader.Decide(reqs, out)
		if !errors.Is(out[0].Err, limiter.ErrNotLeading) {
			return token
		}
		runtime.Gosched()
	}
}

func sumOf(t *Table) string {
	sum, n := t.Hash(start)
	return fmt.Sprintf("%x of %d", sum, n)
}

// run runs workers while generations are flushed and epochs end, until all generations are committed
// or rolled back.
func (r *replicaPair) run(workers int, work func(worker int)) {
	ctx, stop := context.WithCancel(context.Background())
	log, changeEpoch := make(chan logEntry, 2), make(chan struct{}, 1000)
	var around sync.WaitGroup
	around.Go(func() { r.flush(ctx, log) })
	around.Go(func() { r.apply(log, changeEpoch) })
	around.Go(func() { r.changeEpochs(changeEpoch) })
	around.Go(func() { r.leader.RunSweeper(ctx) })
	around.Go(func() {
		for ctx.Err() == nil {
			for rec := range r.leader.CommittedRecords() {
				if !rec.Kind.Known() {
					r.Errorf("got a record of unknown kind %d", rec.Kind)
				}
			}
			select {
			case <-ctx.Done():
			case <-r.view:
			}
		}
	})
	together(workers, work)
	stop()
	around.Wait()
	r.leader.Follow()
	for _, t := range []*Table{r.leader, r.follower} {
		checkTable(r, t)
		checkUndoLogs(r, t)
	}
	sameContent(r, "at the end", contentOf(r.leader), contentOf(r.follower))
	if r.epoch < 3 {
		r.Errorf("%d epochs, want at least 3", r.epoch)
	}
}

// pairs is the number of key pairs. The two keys of a pair are always charged together.
const pairs = 8

var pairLimit = limiter.Limit{Max: 1 << 40, Interval: time.Microsecond}

func pairKey(i int, side string) []byte { return fmt.Append(nil, "pair ", i, side) }

func pairOf(i int) []limiter.Request {
	return linked(
		limiter.Request{Kind: limiter.Throttle, Key: pairKey(i, "left"), Limit: pairLimit, Quantity: 1},
		limiter.Request{Kind: limiter.Throttle, Key: pairKey(i, "right"), Limit: pairLimit, Quantity: 1},
	)
}

// charges returns the number of charges of a key, computed from its record.
func charges(t *Table, key []byte, l limiter.Limit) int64 {
	e, found := t.Lookup(key)
	if !found {
		return 0
	}
	return int64(e.TTL / l.Interval)
}

// checkPairs checks that the follower has applied each group either completely or not at all.
func (r *replicaPair) checkPairs() {
	for i := range pairs {
		left, right := charges(r.follower, pairKey(i, "left"), pairLimit), charges(r.follower, pairKey(i, "right"), pairLimit)
		if left != right {
			r.Errorf("pair %d: the left key was charged %d times, the right key %d times", i, left, right)
		}
	}
}

// While epochs end and start, a generation that await reported as committed stays committed, no charge is applied
// twice, and no group is split. Time is fixed, so the TTL of a key is proportional to its number of charges.
func TestAwaitedIsCommitted(t *testing.T) {
	const keys, calls = 20, 3000
	r := newReplicaPair(t, newFakeClock().read)
	r.check = r.checkPairs
	var sure, unsure [keys + pairs]atomic.Int64
	count := func(key int, token limiter.CommitToken) {
		if r.await(token) {
			sure[key].Add(1)
		} else {
			unsure[key].Add(1)
		}
	}
	r.run(8, func(worker int) {
		rnd := rand.New(rand.NewPCG(uint64(worker), 5))
		out := make([]limiter.Decision, 2)
		for i := range calls {
			key := rnd.IntN(keys + pairs)
			reqs := []limiter.Request{charge(limiter.Throttle, fmt.Sprint(key), pairLimit, 1)}
			if key >= keys {
				reqs = pairOf(key - keys)
			}
			count(key, r.decide(out[:len(reqs)], reqs...))
			r.decide(out[:1], charge(limiter.WindowLog, fmt.Sprint("log", worker), logOf(1<<40, 60_000), 1))
			if i%10 == 0 {
				r.decide(out[:1], charge(limiter.LeakyBucket, fmt.Sprint("gone", i%40), slow, 1))
				_, _ = r.leader.Delete(fmt.Append(nil, "gone", (i+10)%40)) // the table may be a follower
			}
		}
	})
	for key := range sure {
		name := fmt.Append(nil, key)
		if key >= keys {
			name = pairKey(key-keys, "left")
		}
		n, least, most := charges(r.follower, name, pairLimit), sure[key].Load(), sure[key].Load()+unsure[key].Load()
		if n < least || n > most {
			t.Errorf("%q was charged %d times; %d charges were acknowledged, %d are uncertain; want at least the acknowledged charges, and at most the sum of both numbers", name, n, least, most-least)
		}
		if least == 0 {
			t.Errorf("%q has no acknowledged charge", name)
		}
	}
}

// Clear takes effect in a single generation and does not split groups.
func TestConcurrentClear(t *testing.T) {
	r := newReplicaPair(t, newFakeClock().read)
	r.check = r.checkPairs
	var clears atomic.Int64
	r.run(6, func(worker int) {
		rnd := rand.New(rand.NewPCG(uint64(worker), 6))
		out := make([]limiter.Decision, 2)
		for range 3000 {
			if rnd.IntN(50) > 0 {
				r.await(r.decide(out, pairOf(rnd.IntN(pairs))...))
			} else if r.leader.Clear() == nil {
				clears.Add(1)
			}
		}
	})
	if clears.Load() == 0 {
		t.Error("nothing was cleared")
	}
}

// TestRefusalsAreFounded checks that a refusal is based on committed changes once its CommitToken is committed. Each
// key admits one request, so after any awaited decision, the follower must hold the key.
func TestRefusalsAreFounded(t *testing.T) {
	const keys = 40
	r := newReplicaPair(t, newFakeClock().read)
	l := limiter.Limit{Max: 1, Interval: time.Hour}
	r.run(8, func(worker int) {
		rnd := rand.New(rand.NewPCG(uint64(worker), 7))
		out := make([]limiter.Decision, 1)
		for i := range 3000 {
			key := fmt.Sprint("round ", i/20, " key ", rnd.IntN(keys))
			if !r.await(r.decide(out, charge(limiter.Throttle, key, l, 1))) {
				continue
			}
			r.mu.Lock()
			if _, found := r.follower.Lookup([]byte(key)); !found {
				t.Errorf("the follower does not hold %q, but the decision on it was reported as committed: %+v", key, out[0])
			}
			r.mu.Unlock()
		}
	})
}
