package lessee

import (
	"slices"

	"github.com/throttledhq/throttled/limiter"
)

// group holds the accounts of the requests of a group, with the locks of their shards.
type group struct {
	accounts [limiter.MaxGroup]*account
	locked   [limiter.MaxGroup]*shard
	count    int // of locked
}

// find locks the shards of all requests and finds their accounts. It returns false if one of the keys is not tracked, or if
// a request cannot be decided with leased units. All demand is counted in any case.
func (g *group) find(l *Ledger, reqs []limiter.Request, now int64) bool {
	if len(reqs) > limiter.MaxGroup {
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
	return found
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

// enough reports whether each account has the units of its request. Two requests of one account are not decided locally:
// the authority refuses such a group.
func (g *group) enough(reqs []limiter.Request, now int64) bool {
	for i := range reqs {
		a := g.accounts[i]
		if a.units(now) < reqs[i].Quantity || slices.Contains(g.accounts[:i], a) {
			return false
		}
	}
	return true
}
