package buckets

import (
	"bytes"
	"cmp"
	"errors"

	"github.com/throttledhq/throttled/limiter"
)

// put stores a record of one of three kinds: one without a state, one with a state of fixed size,
// and one with a state of varying size.
func (r *tableRun) put() {
	rec := limiter.Record{Kind: limiter.Kind(1 + r.in.number(1)%3), Key: r.key()}
	rec.Expires = r.clock.read() - 1000 + r.in.number(4)
	if size := [...]int{0, 4, int(r.in.number(1)) * 3}[rec.Kind-1]; size > 0 {
		rec.State = bytes.Repeat([]byte{byte(size)}, size)
	}
	rec.Gauge = byte(rec.Expires >> 3)
	err := r.table.Put(rec)
	switch {
	case err == nil:
		r.model.put(rec, r.clock.read())
	case !errors.Is(err, limiter.ErrOutOfMemory) || r.max == 0 || rec.Expires <= r.clock.read():
		r.Fatalf("Put(%+v) returns %v with memory limit %d; want no error, or ErrOutOfMemory for a live record if there is a limit", rec, err, r.max)
	}
	if r.evict {
		r.forgetEvicted(rec.Key)
	}
}

// forgetEvicted removes evicted keys from the model, and checks that no evicted key has a greater
// rank than a remaining key of the same shard. The argument except is a key whose rank is ignored if
// the key remains.
func (r *tableRun) forgetEvicted(except []byte) {
	now := r.clock.read()
	evicted := r.table.Usage().Evicted - r.model.want.Evicted
	maxEvicted, minKept := map[*shard]rank{}, map[*shard]rank{} // by shard: the greatest rank of an evicted key, and the lowest rank of a remaining key
	for key, rec := range r.model.records {
		s, tag := r.table.locate([]byte(key))
		size := recordSize(&limiter.Record{Kind: rec.kind, Key: []byte(key), State: []byte(rec.state)})
		rank := rankOf(rec.kind, gauge(rec.gauge), rec.tat, now, size)
		if _, found := s.find([]byte(key), tag); found {
			if key != string(except) {
				minKept[s] = min(rank, cmp.Or(minKept[s], rank))
			}
			continue
		}
		if delete(r.model.records, key); rec.tat > now {
			r.model.want.Keys--
			r.model.want.Evicted++
			evicted--
			maxEvicted[s] = max(maxEvicted[s], rank)
		}
	}
	if evicted != 0 {
		// Put may have evicted the old record of the key before it stored the new, larger one.
		r.model.want.Evicted += evicted
	}
	if evicted < 0 || evicted > 1 {
		r.Fatalf("the count of evicted keys is off by %d, want 0 or 1", evicted)
	}
	for s, rank := range maxEvicted {
		if minKept[s] > 0 && rank > minKept[s] {
			r.Fatalf("a key of rank %d was evicted, but a key of rank %d was not", rank, minKept[s])
		}
	}
}
