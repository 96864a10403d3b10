package server

import (
	"bytes"
	"hash/maphash"
	"math"
	"sync"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// refusals counts the refusals of limits that ban clients, on the node that decides. The counts are not replicated; only
// the bans are. The memory is bounded: if a set of slots is full, its key with the fewest refusals is dropped. A key whose
// period has ended occupies no slot. So with up to 4,096 keys in their periods, a quarter of the slots, almost all keys are
// counted: on average, fewer than one of the 2,048 sets has more keys than slots. With more keys, those with few refusals
// are lost first.
type refusals struct {
	seed  maphash.Seed
	mu    sync.Mutex
	slots []refusalSlot // nil before the first refusal
}

// refusalSlot holds the count of one key in a period. The zero value is free.
type refusalSlot struct {
	hash uint64
	end  time.Duration // uptime of the server at which the period ends: the slot is free from then on
	n    int64
}

// count returns the number of refusals in the period, or 0 if it has ended.
func (s *refusalSlot) count(now time.Duration) int64 {
	if now >= s.end {
		return 0
	}
	return s.n
}

const (
	refusalSlots = 1 << 14
	refusalWays  = 8 // slots in which a key may be
)

// add counts a refusal, and reports whether a key has been refused limit times in the period that began with the first
// of these refusals. If so, counting starts again.
func (r *refusals) add(key []byte, limit int64, period, now time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.slots == nil {
		r.seed, r.slots = maphash.MakeSeed(), make([]refusalSlot, refusalSlots)
	}
	hash := maphash.Bytes(r.seed, key)
	s := r.slotOf(hash, now)
	if s.hash != hash || s.count(now) == 0 {
		*s = refusalSlot{hash: hash, end: now + min(period, math.MaxInt64-now)}
	}
	s.n++
	if s.n < limit {
		return false
	}
	*s = refusalSlot{}
	return true
}

// slotOf returns the slot with a hash, or else the slot with the smallest count in the same set.
func (r *refusals) slotOf(hash uint64, now time.Duration) *refusalSlot {
	from := int(hash%(refusalSlots/refusalWays)) * refusalWays
	set := r.slots[from : from+refusalWays]
	least := &set[0]
	for i := range set {
		if set[i].hash == hash && set[i].count(now) > 0 {
			return &set[i]
		}
		if set[i].count(now) < least.count(now) {
			least = &set[i]
		}
	}
	return least
}

// countRefusals counts the refusals of a call by limits that ban, and writes the bans that follow. The reply to the call
// does not depend on the bans, so it need not wait for their commit.
func (b *batch) countRefusals(c *call, s *Server) {
	for i := range c.limits {
		a := &c.limits[i]
		if !a.countsForBan || a.sharesBan(c.limits[:i]) || !b.refusedBy(c, a.ban) {
			continue
		}
		period, _ := a.limit.Ban.After.Per.Duration() // always fits: the parser of rules has checked it
		req := b.reqs[a.ban]
		if s.rules.refusals.add(req.Key, a.limit.Ban.After.Count, period, s.rules.elapsed()) {
			b.stopCounting(req.Key)
			s.beginBan(req)
		}
	}
}

// stopCounting drops the refusals of the batch that are not counted yet and belong to a client that is now banned. They were
// decided before the ban.
func (b *batch) stopCounting(ban []byte) {
	for i := range b.calls {
		limits := b.calls[i].limits
		for j := range limits {
			if a := &limits[j]; a.countsForBan && bytes.Equal(b.reqs[a.ban].Key, ban) {
				a.countsForBan = false
			}
		}
	}
}

// beginBan writes a ban, unless another batch has done so since the client was refused. The request is that which asked
// for the ban.
func (s *Server) beginBan(req limiter.Request) {
	s.rules.banning.Lock()
	defer s.rules.banning.Unlock()
	var out [1]limiter.Decision
	req.Linked, req.Trial = false, false
	if s.engine.Decide([]limiter.Request{req}, out[:]); out[0].Limited || out[0].Err != nil {
		return
	}
	req.Quantity = 1
	if s.engine.Decide([]limiter.Request{req}, out[:]); out[0].Err == nil {
		s.rules.counts.bans.Add(1)
	}
}

// sharesBan reports whether an earlier counter of the call belongs to the same limit, so that the refusal is counted with it.
func (a *appliedCounter) sharesBan(before []appliedCounter) bool {
	return len(before) > 0 && before[len(before)-1].ban == a.ban
}

// refusedBy reports whether the limit with a ban has refused the call, while the ban did not apply. A request that the limit
// can never admit, because its cost is too high or an amount is "none", does not count: no used units are the reason.
func (b *batch) refusedBy(c *call, ban int32) (refused bool) {
	if b.out[ban].Limited || b.out[ban].Err != nil {
		return false
	}
	for i := range c.limits {
		a := &c.limits[i]
		if a.ban != ban || a.request < 0 || !b.out[a.request].Limited {
			continue
		}
		if b.out[a.request].RetryAfter == limiter.NoRetry {
			return false
		}
		refused = true
	}
	return refused
}
