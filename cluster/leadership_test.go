package cluster

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// TestCommitUnblocksAll checks that a commit unblocks the waiters of the committed generation and of earlier ones, and
// no others.
func TestCommitUnblocksAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLeadership(1, 1)
		var mu sync.Mutex
		unblocked := map[uint64]int{}
		var waiting sync.WaitGroup
		for i := range 30 {
			generation := uint64(5 + i%3)
			waiting.Go(func() {
				if err := r.await(generation); err != nil {
					t.Errorf("await of generation %d: %v, want nil", generation, err)
				}
				mu.Lock()
				unblocked[generation]++
				mu.Unlock()
			})
		}
		synctest.Wait()
		if got := r.demanded.Load(); got != 7 {
			t.Errorf("the newest demanded generation is %d, want 7", got)
		}
		r.flights.add(5, time.Second, 1)
		r.flights.add(6, 2*time.Second, 1)
		if waits, age := r.flights.oldest(3 * time.Second); waits != 2 || age != 2*time.Second {
			t.Errorf("%d generations in flight, the oldest for %v; want 2, and 2s", waits, age)
		}
		if readAt := r.commit(6, 4*time.Second); readAt != 2*time.Second || r.lease.confirmed.Load() != int64(2*time.Second) || r.flights.took != 2*time.Second {
			t.Errorf("commit returned %v, and the commit took %v; want 2s for both, and a lease from 2s", readAt, r.flights.took)
		}
		synctest.Wait()
		mu.Lock()
		if unblocked[5] != 10 || unblocked[6] != 10 || unblocked[7] != 0 {
			t.Errorf("unblocked waiters by generation: %v, want 10 of 5 and 10 of 6", unblocked)
		}
		mu.Unlock()
		r.flights.add(7, 3*time.Second, 1)
		r.commit(7, 3*time.Second)
		waiting.Wait()
		if unblocked[7] != 10 {
			t.Errorf("unblocked waiters by generation: %v, want also 10 of 7", unblocked)
		}
	})
}

// TestEndOfLeadership checks that the end of a leadership unblocks all waiters. Waiters of uncommitted generations must
// get limiter.ErrUncertain.
func TestEndOfLeadership(t *testing.T) {
	r := newLeadership(1, 1)
	r.flights.add(1, 0, 1)
	r.commit(1, 0)
	close(r.over)
	if err := r.await(1); err != nil {
		t.Errorf("await of a committed generation: %v, want nil", err)
	}
	if err := r.await(2); err != limiter.ErrUncertain {
		t.Errorf("await of an uncommitted generation: %v, want ErrUncertain", err)
	}
}

// TestWaitsAreReused checks that waiters are unblocked correctly when the slots in waiters.waits are reused for later
// generations.
func TestWaitsAreReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLeadership(1, 1)
		for generation := uint64(1); generation <= 100; generation++ {
			var waiting sync.WaitGroup
			for range 3 {
				waiting.Go(func() {
					if err := r.await(generation); err != nil {
						t.Error(err)
					}
				})
			}
			synctest.Wait()
			if err := r.await(generation - 1); err != nil {
				t.Error(err)
			}
			r.flights.add(generation, 0, 1)
			r.commit(generation, 0)
			waiting.Wait()
		}
	})
}

// TestRoom checks that a second generation may be submitted while one is in flight only if commits are slow, and if the
// second one is full or the first one has few decisions.
func TestRoom(t *testing.T) {
	few, full := func() int64 { return fullEntry - 1 }, func() int64 { return fullEntry }
	synctest.Test(t, func(t *testing.T) {
		r := newLeadership(1, 1)
		if !r.awaitRoom(few) {
			t.Error("awaitRoom returned false for the first generation")
		}
		r.flights.add(1, 0, 1)
		room := make(chan bool, 1)
		go func() { room <- r.awaitRoom(full) }()
		synctest.Wait()
		if len(room) > 0 {
			t.Error("awaitRoom returned for a second generation while the duration of a commit is unknown")
		}
		r.commit(1, secondFlightAfter)
		if !<-room {
			t.Error("awaitRoom returned false after the first generation was committed")
		}
		r.flights.add(2, 0, fewDecisions)
		if !r.flights.hasRoom(full()) || r.flights.hasRoom(few()) {
			t.Error("want room for a second generation only if it is full, while a larger one is in flight")
		}
		r.flights.add(3, 0, fullEntry)
		if r.flights.hasRoom(full()) {
			t.Error("room for a third generation")
		}
		r.commit(3, secondFlightAfter)
		r.flights.add(4, 0, fewDecisions-1)
		if !r.flights.hasRoom(few()) {
			t.Error("no room for a second generation although the first one has few decisions")
		}
		r.commit(4, secondFlightAfter-1)
		r.flights.add(5, 0, fewDecisions-1)
		if r.flights.hasRoom(full()) {
			t.Error("room for a second generation although commits are fast")
		}
		close(r.over)
		if r.awaitRoom(full) {
			t.Error("awaitRoom returned true after the end of the leadership")
		}
	})
}
