package lessee

import "sync/atomic"

// Counts counts the decisions and calls of a ledger since it was made.
type Counts struct {
	Admitted  atomic.Int64 // requests admitted locally
	Refused   atomic.Int64 // requests refused locally
	Forwarded atomic.Int64 // requests that the authority must decide
	Draws     atomic.Int64 // draws sent
	Returns   atomic.Int64 // returns sent
	Failures  atomic.Int64 // draws without an answer
	Drawn     atomic.Int64 // units granted
	Returned  atomic.Int64 // units returned
	Lost      atomic.Int64 // units of leases that ended before the units were spent or returned
}

func (c *Counts) count(limited bool) {
	if limited {
		c.Refused.Add(1)
		return
	}
	c.Admitted.Add(1)
}

// Counts returns the counters of the ledger.
func (l *Ledger) Counts() *Counts { return &l.counts }

// Usage returns the number of tracked keys, and the number of units and leases in hand at the time now.
func (l *Ledger) Usage(now int64) (keys, leases int, units int64) {
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		keys += len(s.accounts)
		for _, a := range s.accounts {
			for j := range a.leases {
				if h := &a.leases[j]; h.units > 0 && now < h.ends {
					leases++
					units += h.units
				}
			}
		}
		s.mu.Unlock()
	}
	return keys, leases, units
}
