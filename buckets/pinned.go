package buckets

import (
	"math"
	"sync"
	"time"

	"github.com/throttledhq/throttled/lease"
	"github.com/throttledhq/throttled/limiter"
)

// pinShare is the part of the memory limit that records with outstanding leases may take: an eighth. Such records are not
// evicted.
const pinShare = 8

// The sizes of records with outstanding leases are added up by the time at which their last lease ends, in slots that are
// used again: more than limiter.MaxHold passes from one use to the next.
const (
	pinSlots  = 64
	pinLength = uint64(20 * time.Millisecond)
)

// pinnedMemory bounds the memory of the records with outstanding leases. It includes the size of each such record, as of
// its latest change, in the slot of the time at which its last lease ends. A record without further changes is therefore
// removed from the sum when it can be evicted again.
type pinnedMemory struct {
	mu    sync.Mutex
	first uint64 // the number of the earliest slot that has not ended: the limiter time divided by pinLength
	sum   int64  // of all slots
	slots [pinSlots]int64
}

// pin is the size of a record with outstanding leases, and the time at which the last one ends. It is zero for other records.
type pin struct {
	bytes int64
	until uint64
}

// pinOf returns the pin of a record at limiter time now.
func pinOf(kind limiter.Kind, key, state []byte, now uint64) pin {
	if !kind.Leased() || lease.Until(state) <= now {
		return pin{}
	}
	return pin{int64(recordSize(&limiter.Record{Kind: kind, Key: key, State: state})), lease.Until(state)}
}

// pinAt returns the pin of the stored record of a key.
func (s *shard) pinAt(p place, now uint64) pin {
	if !p.found {
		return pin{}
	}
	rec := s.record(p.at)
	if !rec.pinned(now) {
		return pin{}
	}
	return pinOf(rec.kind(), rec.key(), rec.state(), now)
}

// replace replaces the pin of a record at limiter time now, unless the sum would exceed most, and reports whether it did.
func (p *pinnedMemory) replace(old, changed pin, most int64, now uint64) bool {
	if old == changed {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance(now / pinLength)
	slot, counted := p.counted(old)
	if p.sum-counted+changed.bytes > most {
		return false
	}
	p.add(slot, -counted)
	p.add(changed.until/pinLength, changed.bytes)
	return true
}

// advance clears the slots before the one with the given number. The time of another shard may be earlier. If it is
// earlier by more than all slots, the time of this table has been set back, and the slots are cleared.
func (p *pinnedMemory) advance(number uint64) {
	if number >= p.first+pinSlots || number+pinSlots < p.first {
		p.first, p.sum, p.slots = number, 0, [pinSlots]int64{}
	}
	for ; p.first < number; p.first++ {
		p.add(p.first, -p.slots[p.first%pinSlots])
	}
}

// counted returns the slot of a pin and the bytes that are included for it there. There can be fewer than those of the pin if
// another table has granted its leases, as the former leader.
func (p *pinnedMemory) counted(old pin) (slot uint64, bytes int64) {
	slot = old.until / pinLength
	if slot < p.first || slot >= p.first+pinSlots {
		return p.first, 0
	}
	return slot, min(old.bytes, p.slots[slot%pinSlots])
}

// add adds bytes to a slot, or to the nearest one that is in use.
func (p *pinnedMemory) add(slot uint64, bytes int64) {
	slot = min(max(slot, p.first), p.first+pinSlots-1)
	p.slots[slot%pinSlots] += bytes
	p.sum += bytes
}

// pinLimit returns the maximum memory of records with outstanding leases after a draw.
func (s *shard) pinLimit() int64 {
	if limit := s.shared.memory.limit.Load(); limit > 0 {
		return limit / pinShare
	}
	return unbounded
}

// unbounded is the maximum for changes that are not draws. Such changes are included in the sum, but not refused.
const unbounded = math.MaxInt64

// refuseDraw grants nothing for a draw, and computes the decision on it.
func (s *shard) refuseDraw(p place, req *limiter.Request, now uint64, out *limiter.Decision) {
	refused, trial := *req.Draw, *req
	refused.ID = 0 // of no lease
	trial.Draw = &refused
	req.Draw.Granted, req.Draw.Valid = 0, 0
	_, _, *out = lease.Draw(lease.Algorithm(algorithms[req.Kind]), &trial, p.kind, p.old, now)
}
