package cluster

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// arrivals is the log store of Raft. It records the arrival time of each entry that is not applied yet, on the monotonic
// clock of this process.
//
// An entry may be committed long after it arrived, as after a loss of the majority. Its log time was read before it
// arrived, so the time since then has passed in full.
type arrivals struct {
	raft.LogStore
	now func() time.Duration

	mu      sync.Mutex
	waiting []arrival // ascending by index
}

// arrival is an entry of the log and its arrival time.
type arrival struct {
	index, term uint64
	at          time.Duration
}

// StoreLog stores an entry and records its arrival.
func (a *arrivals) StoreLog(log *raft.Log) error { return a.StoreLogs([]*raft.Log{log}) }

// StoreLogs stores entries. Their arrival time is read before that.
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

// truncate drops the arrivals from an index on, whose entries are being replaced. a.mu is held.
func (a *arrivals) truncate(from uint64) {
	for n := len(a.waiting); n > 0 && a.waiting[n-1].index >= from; n-- {
		a.waiting = a.waiting[:n-1]
	}
}

// take returns the arrival time of an entry that is being applied, and drops the arrivals up to it. It returns the present
// time for an entry that was in the log when the process began.
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
