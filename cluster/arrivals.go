package cluster

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// arrivals is the log store of Raft. It remembers when each entry that is yet to be applied came in, on the
// monotonic clock of this process.
//
// An entry may be committed long after it came in, as after a loss of the majority. Its log time was read
// before it came in, so the time since then has passed in full.
type arrivals struct {
	raft.LogStore
	now func() time.Duration

	mu      sync.Mutex
	waiting []arrival // ascending by index
}

// arrival is an entry of the log and when it came in.
type arrival struct {
	index, term uint64
	at          time.Duration
}

func (a *arrivals) StoreLog(log *raft.Log) error { return a.StoreLogs([]*raft.Log{log}) }

// StoreLogs stores entries and remembers that they came in before that.
func (a *arrivals) StoreLogs(logs []*raft.Log) error {
	at := a.now()
	if err := a.LogStore.StoreLogs(logs); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range logs {
		a.truncate(l.Index)
		a.waiting = append(a.waiting, arrival{l.Index, l.Term, at})
	}
	return nil
}

// truncate drops the entries from an index on, which others replace. a.mu is held.
func (a *arrivals) truncate(from uint64) {
	for n := len(a.waiting); n > 0 && a.waiting[n-1].index >= from; n-- {
		a.waiting = a.waiting[:n-1]
	}
}

// take returns when an entry that is being applied came in, and drops it and those before it. It returns the
// present for an entry that was in the log when the process began.
func (a *arrivals) take(index, term uint64) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.waiting) > 0 && a.waiting[0].index < index {
		a.waiting = a.waiting[1:]
	}
	if len(a.waiting) == 0 || a.waiting[0].index != index || a.waiting[0].term != term {
		return a.now()
	}
	at := a.waiting[0].at
	a.waiting = a.waiting[1:]
	return at
}
