package lessee

import (
	"bytes"
	"slices"

	"github.com/throttledhq/throttled/limiter"
)

// group holds the accounts of the requests of a group, with the locks of their shards.
type group struct {
	accounts [limiter.MaxGroup]*account
	locked   [limiter.MaxGroup]*shard
	count    int // of locked
}

// find locks the shards of all requests and finds their accounts. It returns false if one of the keys is not tracked, if a
// request cannot be decided with leased units, or if two requests have the same key: the authority refuses such a group,
// also if their limits differ and units of both are in hand.
func (g *group) find(l *Ledger, reqs []limiter.Request, now int64) bool {
	if len(reqs) > limiter.MaxGroup || repeatsKey(reqs) {
		return false
	}
	var numbers [limiter.MaxGroup]uint64
	for i := range reqs {
		if !leasable(&reqs[i]) {
			return false
		}
		var buf [maxName]byte
		_, hash := l.shard(appendName(buf[:0], &reqs[i]))
		numbers[i] = hash % shardCount
	}
	g.lock(l, numbers[:len(reqs)])
	found := true
	for i := range reqs {
		var buf [maxName]byte
		name := appendName(buf[:0], &reqs[i])
		s, hash := l.shard(name)
		g.accounts[i] = l.account(s, name, hash, &reqs[i], now)
		found = found && g.accounts[i] != nil
	}
	if found {
		g.demands(reqs, now)
	}
	return found
}

// demands counts the demand of a group. Units are drawn for it only if every limit has units in hand or is likely to get some.
// Otherwise, units of one limit would be drawn again and again without being spent, and the authority would meanwhile refuse
// requests for them, also those of this group, which are forwarded.
func (g *group) demands(reqs []limiter.Request, now int64) {
	ready := true
	for i := range reqs {
		a := g.accounts[i]
		a.grouped.add(reqs[i].Quantity, now)
		ready = ready && reqs[i].Quantity <= reqs[i].Limit.Max && a.ready(now)
	}
	for i := range reqs {
		if ready {
			g.accounts[i].demands(reqs[i].Quantity, now)
		}
	}
}

// lock locks the shards with the given numbers in ascending order, each of them once.
func (g *group) lock(l *Ledger, numbers []uint64) {
	slices.Sort(numbers)
	for _, n := range slices.Compact(numbers) {
		s := &l.shards[n]
		s.mu.Lock()
		g.locked[g.count] = s
		g.count++
	}
}

func (g *group) unlock() {
	for _, s := range g.locked[:g.count] {
		s.mu.Unlock()
	}
}

// enough reports whether each account has the units of its request. The accounts differ.
func (g *group) enough(reqs []limiter.Request, now int64) bool {
	for i := range reqs {
		if g.accounts[i].units(now) < reqs[i].Quantity {
			return false
		}
	}
	return true
}

// repeatsKey reports whether two requests have the same key.
func repeatsKey(reqs []limiter.Request) bool {
	for i := range reqs {
		for j := range reqs[:i] {
			if bytes.Equal(reqs[i].Key, reqs[j].Key) {
				return true
			}
		}
	}
	return false
}
