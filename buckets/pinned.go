package buckets

import (
	"sync"

	"github.com/throttledhq/throttled/lease"
	"github.com/throttledhq/throttled/limiter"
)

// pinShare is the part of the memory limit that records with outstanding leases may take: an eighth. Such records are not
// evicted.
const pinShare = 8

// pinnedMemory bounds the memory of the records with outstanding leases. A lease lasts for limiter.MaxHold at most, so the
// draws of the present and the previous interval of this length include all outstanding leases.
type pinnedMemory struct {
	mu       sync.Mutex
	interval uint64 // the number of the present interval of limiter.MaxHold
	now, old int64  // bytes of the draws of the present and of the previous interval
}

// reserve adds the bytes of a draw at limiter time at, unless the sum would exceed most, and reports whether they were added.
func (p *pinnedMemory) reserve(bytes, most int64, at uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch interval := at / uint64(limiter.MaxHold); {
	case interval <= p.interval: // the time of another shard may be earlier
	case interval == p.interval+1:
		p.interval, p.now, p.old = interval, 0, p.now
	default:
		p.interval, p.now, p.old = interval, 0, 0
	}
	if p.now+p.old+bytes > most {
		return false
	}
	p.now += bytes
	return true
}

// pin reports whether the record of a key that a draw has changed fits in the part of the memory limit for records with
// outstanding leases.
func (s *shard) pin(p place, key []byte, c *limiter.Change, now uint64) bool {
	limit := s.shared.memory.limit.Load()
	if limit == 0 {
		return true
	}
	bytes := recordSize(&limiter.Record{Kind: p.kind.WithLeases(), Key: key, State: c.Tail})
	if p.kind.Leased() && lease.Until(p.old.Data) > now { // the rest was counted by an earlier draw
		bytes -= len(p.old.Data)
	}
	return s.shared.leases.pinned.reserve(int64(max(0, bytes)), limit/pinShare, now)
}

// refuseDraw grants nothing for a draw, and computes the decision on it.
func (s *shard) refuseDraw(p place, req *limiter.Request, now uint64, out *limiter.Decision) {
	refused, trial := *req.Draw, *req
	refused.ID = 0 // of no lease
	trial.Draw = &refused
	req.Draw.Granted, req.Draw.Valid = 0, 0
	_, _, *out = lease.Draw(lease.Algorithm(algorithms[req.Kind]), &trial, p.kind, p.old, now)
}
