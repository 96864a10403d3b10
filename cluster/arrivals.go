package cluster

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// arrivals wraps the log store of Raft. It records the arrival time of each entry that is not applied yet, on the
// monotonic clock of this process.
//
// An entry may be committed long after it arrived, for example if a majority of the nodes was down. Log time then
// continues from the log time in the entry plus the time since the arrival. The log time in the entry was read before
// the arrival, so this sum is never ahead of real time.
type arrivals struct {
	raft.LogStore
	now func() time.Duration

	mu      sync.Mutex
	waiting []arrival // arrivals of entries that are not applied yet, ascending by index
}

// arrival is an entry of the log and its arrival time.
type arrival struct {
	index, term uint64
	at          time.Duration
}

// StoreLog stores an entry and records its arrival.
func (a *arrivals) StoreLog(log *raft.Log) error { return a.StoreLogs([]*raft.Log{log}) }

// StoreLogs stores entries and records their arrival time. The arrival time is read before the entries are stored.
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

// truncate drops the arrival times of the entries from the given index on. The caller must hold a.mu.
func (a *arrivals) truncate(from uint64) {
	for n := len(a.waiting); n > 0 && a.waiting[n-1].index >= from; n-- {
		a.waiting = a.waiting[:n-1]
	}
}

// take returns the arrival time of an entry that is being applied, and drops the arrival times up to that entry. For an
// entry that was already in the log when the process started, it returns the current time.
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
