package buckets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// Records returns the live records, without deleted, replaced and expired ones.
func TestRecords(t *testing.T) {
	clock := newFakeClock()
	table := New(Config{Clock: clock.read, Shards: 4})
	for i := range 1000 {
		ask(table, fmt.Sprint(i), limiter.Limit{Max: 1, Interval: time.Duration(1+i%3) * time.Second}, 1)
	}
	for i := range 1000 {
		if i%5 == 0 {
			mustDelete(table, []byte(fmt.Sprint(i)))
		}
	}
	long := limiter.Record{Kind: 9, Key: []byte("with state"), Expires: start + uint64(time.Hour), State: bytes.Repeat([]byte{7}, 300)}
	for range 3 {
		long.State = append(long.State, 7)
		if err := table.Put(long); err != nil {
			t.Fatal(err)
		}
	}
	clock.advance(time.Second)
	seen := map[string]limiter.Record{}
	for rec := range table.Records() {
		if _, again := seen[string(rec.Key)]; again {
			t.Errorf("%q is returned twice", rec.Key)
		}
		rec.State = bytes.Clone(rec.State)
		seen[string(rec.Key)] = rec
	}
	if got := seen["with state"]; got.Kind != 9 || got.Expires != long.Expires || !bytes.Equal(got.State, long.State) {
		t.Errorf("the record with a state is %+v, want %+v", got, long)
	}
	for i := range 1000 {
		_, found := seen[fmt.Sprint(i)]
		if want := i%5 != 0 && i%3 != 0; found != want {
			t.Errorf("key %d found: %t, want %t", i, found, want)
		}
	}
}

// A loop over Records can be left with break.
func TestRecordsBreak(t *testing.T) {
	n := 0
	for range filled(1000, Config{Shards: 4}).Records() {
		if n++; n == 10 {
			break
		}
	}
	if n != 10 {
		t.Errorf("the loop ran for %d records, want 10", n)
	}
}

// Put stores the records of a different table without loss of precision.
func TestPutRestores(t *testing.T) {
	clock := newFakeClock()
	from, to := New(Config{Clock: clock.read}), New(Config{Clock: clock.read, Shards: 2})
	l := limiter.Limit{Max: 100, Interval: time.Second}
	for i := range 5000 {
		ask(from, fmt.Sprint(i), l, int64(1+i%100))
	}
	for rec := range from.Records() {
		if err := to.Put(rec); err != nil {
			t.Fatal(err)
		}
	}
	checkTable(t, to)
	clock.advance(1500 * time.Millisecond)
	for i := range 5000 {
		key := fmt.Sprint(i)
		if a, b := ask(from, key, l, 3), ask(to, key, l, 3); a != b {
			t.Fatalf("key %s: %+v in the source, %+v in the copy", key, a, b)
		}
	}
}

// If there is no memory for the record of a Put, the key is unchanged.
func TestPutWithoutRoom(t *testing.T) {
	table := New(Config{Clock: newFakeClock().read, Shards: 1, MaxMemory: 5000})
	rec := limiter.Record{Kind: 2, Key: []byte("k"), Expires: start + 1000, State: []byte("first")}
	if err := table.Put(rec); err != nil {
		t.Fatal(err)
	}
	rec.State = make([]byte, 10_000)
	if err := table.Put(rec); !errors.Is(err, limiter.ErrOutOfMemory) {
		t.Errorf("Put returns %v, want ErrOutOfMemory", err)
	}
	for got := range table.Records() {
		if string(got.State) != "first" {
			t.Errorf("after the failed Put the state is %q, want the first state", got.State)
		}
	}
	checkTable(t, table)
}

// Putting an expired record deletes its key.
func TestPutExpired(t *testing.T) {
	table := New(Config{Clock: newFakeClock().read})
	rec := limiter.Record{Kind: limiter.Throttle, Key: []byte("k"), Expires: start + 1}
	for _, expires := range []uint64{start + 1, start, start} {
		rec.Expires = expires
		if err := table.Put(rec); err != nil {
			t.Fatal(err)
		}
		if _, found := table.Lookup(rec.Key); found != (expires > start) {
			t.Errorf("key with TTL %d ns found: %t; want true only for a TTL above 0", expires-start, found)
		}
	}
	if u := table.Usage(); u.Changes != 2 || u.Expired != 0 {
		t.Errorf("the usage is %+v, want 2 changes and no expired keys", u)
	}
}

// Records that change concurrently are read consistently: state and expiry time match.
func TestRecordsInACrowd(t *testing.T) {
	table := New(Config{Clock: newFakeClock().read, Shards: 2})
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				n := 1 + i%200
				rec := limiter.Record{
					Kind: 2, Key: fmt.Appendf(nil, "%d-%d", w, i%50),
					Expires: start + uint64(n), State: bytes.Repeat([]byte{byte(n)}, n),
				}
				if err := table.Put(rec); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 300 {
		for rec := range table.Records() {
			n := int(rec.Expires - start)
			if len(rec.State) != n || n > 0 && rec.State[n-1] != byte(n) {
				t.Fatalf("a record with a TTL of %d ns has state % x; want a state of as many bytes, each with this value", n, rec.State)
			}
		}
	}
	stop()
	writers.Wait()
	checkTable(t, table)
}
