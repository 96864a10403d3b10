package buckets

import (
	"bytes"
	"cmp"
	"errors"

	"github.com/throttledhq/throttled/limiter"
)

// put has a record stored, of a kind whose state is its time, has a fixed size, or has
// one that varies.
func (r *tableRun) put() {
	rec := limiter.Record{Kind: limiter.Kind(1 + r.in.number(1)%3), Key: r.key()}
	rec.Expires = r.clock.tell() - 1000 + r.in.number(4)
	if size := [...]int{0, 4, int(r.in.number(1)) * 3}[rec.Kind-1]; size > 0 {
		rec.State = bytes.Repeat([]byte{byte(size)}, size)
	}
	err := r.table.Put(rec)
	switch {
	case err == nil:
		r.model.put(rec, r.clock.tell())
	case !errors.Is(err, limiter.ErrOutOfMemory) || r.max == 0 || rec.Expires <= r.clock.tell():
		r.Fatalf("Put(%+v) = %v with limit %d", rec, err, r.max)
	}
	if r.evict {
		r.forgetEvicted(rec.Key)
	}
}

// forgetEvicted takes those keys out of the model that the table has evicted to make room
// for one key, and checks that they had no greater debts than those that stayed with them.
func (r *tableRun) forgetEvicted(except []byte) {
	now := r.clock.tell()
	evicted := r.table.Usage().Evicted - r.model.want.Evicted
	gone, least := map[*shard]int{}, map[*shard]int{} // the greatest class that is gone, the least that is there
	for key, rec := range r.model.records {
		s, tag := r.table.locate([]byte(key))
		size := recordSize(&limiter.Record{Kind: rec.kind, Key: []byte(key), State: []byte(rec.state)})
		class := debtClass(rec.tat, now, size)
		if _, found := s.find([]byte(key), tag); found {
			if key != string(except) {
				least[s] = min(class, cmp.Or(least[s], class))
			}
			continue
		}
		if delete(r.model.records, key); rec.tat > now {
			r.model.want.Keys--
			r.model.want.Evicted++
			evicted--
			gone[s] = max(gone[s], class)
		}
	}
	if evicted != 0 {
		// The record that is replaced by one that needs more room may be evicted first.
		r.model.want.Evicted += evicted
	}
	if evicted < 0 || evicted > 1 {
		r.Fatalf("the number of keys evicted is %d off", evicted)
	}
	for s, class := range gone {
		if least[s] > 0 && class > least[s] {
			r.Fatalf("a key with a debt of class %d was evicted, one of class %d stayed", class, least[s])
		}
	}
}
