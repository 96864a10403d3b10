package cluster

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// A commit unblocks the waiters of that generation and of older ones, and no others.
func TestCommitWakesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLeadership(1, 1)
		var mu sync.Mutex
		let := map[uint64]int{}
		var waiting sync.WaitGroup
		for i := range 30 {
			generation := uint64(5 + i%3)
			waiting.Go(func() {
				if err := r.await(generation); err != nil {
					t.Errorf("generation %d: %v", generation, err)
				}
				mu.Lock()
				let[generation]++
				mu.Unlock()
			})
		}
		synctest.Wait()
		if got := r.demanded.Load(); got != 7 {
			t.Errorf("demanded %d", got)
		}
		r.pipeline.add(5, time.Second)
		r.pipeline.add(6, 2*time.Second)
		if waits, age := r.pipeline.oldest(3 * time.Second); waits != 2 || age != 2*time.Second {
			t.Errorf("%d in flight, the oldest for %v", waits, age)
		}
		if taken := r.commit(6, 4*time.Second); taken != 2*time.Second || r.lease.confirmed.Load() != int64(2*time.Second) || r.pipeline.took != 2*time.Second {
			t.Errorf("taken at %v, took %v", taken, r.pipeline.took)
		}
		synctest.Wait()
		mu.Lock()
		if let[5] != 10 || let[6] != 10 || let[7] != 0 {
			t.Errorf("let go %v", let)
		}
		mu.Unlock()
		r.pipeline.add(7, 3*time.Second)
		r.commit(7, 3*time.Second)
		waiting.Wait()
		if let[7] != 10 {
			t.Errorf("let go %v", let)
		}
	})
}

// The end of a leadership unblocks all waiters. Generations that are not committed are uncertain.
func TestEndOfLeadership(t *testing.T) {
	r := newLeadership(1, 1)
	r.pipeline.add(1, 0)
	r.commit(1, 0)
	close(r.over)
	if err := r.await(1); err != nil {
		t.Errorf("what is committed stays so: %v", err)
	}
	if err := r.await(2); err != limiter.ErrUncertain {
		t.Errorf("what is not: %v", err)
	}
}

// Places to wait are used again, many times over.
func TestWaitsAreUsedAgain(t *testing.T) {
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
			r.pipeline.add(generation, 0)
			r.commit(generation, 0)
			waiting.Wait()
		}
	})
}

// A second generation is submitted while one is in flight only if those take long.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLeadership(1, 1)
		if !r.room() {
			t.Error("no room for the first")
		}
		r.pipeline.add(1, 0)
		let := make(chan bool, 1)
		go func() { let <- r.room() }()
		synctest.Wait()
		if len(let) > 0 {
			t.Error("room for a second while it is not known how long one takes")
		}
		r.commit(1, pipelineAfter)
		if !<-let {
			t.Error("no room after the first is committed")
		}
		r.pipeline.add(2, 0)
		if !r.pipeline.hasRoom() {
			t.Error("no room for a second although generations take long")
		}
		r.pipeline.add(3, 0)
		if r.pipeline.hasRoom() {
			t.Error("room for a third")
		}
		r.commit(3, pipelineAfter-1)
		r.pipeline.add(4, 0)
		if r.pipeline.hasRoom() {
			t.Error("room for a second although generations are quick")
		}
		close(r.over)
		if r.room() {
			t.Error("room after the end")
		}
	})
}
