package buckets

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// CommittedRecords returns the records as of the end of the last committed generation.
func TestCommittedRecords(t *testing.T) {
	table, clock := leading(Config{Shards: 4})
	for i := range 300 {
		ask(table, fmt.Sprint(i), slow, 1)
	}
	first, _ := table.Collect(nil)
	want := contentOf(table)
	if got := committedContent(t, table); len(got) != 0 {
		t.Errorf("before the first commit: %d committed keys, want none", len(got))
	}
	for i := range 300 {
		switch i % 3 {
		case 0:
			ask(table, fmt.Sprint(i), slow, 1)
		case 1:
			mustDelete(table, fmt.Append(nil, i))
		}
		ask(table, fmt.Sprint("new ", i), slow, 1)
	}
	table.Commit(first, start)
	sameContent(t, "with an open generation", committedContent(t, table), want)
	table.Collect(nil)
	mustClear(table)
	ask(table, "1", slow, 1)
	sameContent(t, "after Clear", committedContent(t, table), want)
	table.Follow()
	sameContent(t, "after the rollback", committedContent(t, table), want)
	clock.advance(2 * time.Hour)
	if err := table.Replay(nil, clock.read()); err != nil {
		t.Fatal(err)
	}
	if got := committedContent(t, table); len(got) != 0 {
		t.Errorf("CommittedRecords yields %d expired records, want none", len(got))
	}
}

// A loop over CommittedRecords can be left with break at any record, whether or not its key has
// uncommitted changes.
func TestCommittedRecordsBreak(t *testing.T) {
	table, _ := leading(Config{Shards: 1})
	for i := range 100 {
		ask(table, fmt.Sprint(i), slow, 1)
	}
	commitAll(t, table)
	for i := range 50 {
		ask(table, fmt.Sprint(i), slow, 1)
	}
	for want := 1; want <= 100; want++ {
		n := 0
		for range table.CommittedRecords() {
			if n++; n == want {
				break
			}
		}
		if n != want {
			t.Errorf("the loop ran for %d records, want %d", n, want)
		}
	}
}

// All records of a table that is not replicated are committed.
func TestCommittedRecordsWithoutUndoLog(t *testing.T) {
	table := New(Config{Clock: newFakeClock().read, Shards: 2})
	ask(table, "a", slow, 1)
	ask(table, "b", slow, 1)
	mustDelete(table, []byte("a"))
	n := 0
	for rec := range table.CommittedRecords() {
		if n++; string(rec.Key) != "b" {
			t.Errorf("CommittedRecords yields %+v, want only key b", rec)
		}
	}
	if sum, keys := table.Hash(start); n != 1 || keys != 1 || sum == 0 {
		t.Errorf("CommittedRecords yields %d records, Hash counts %d keys; want 1, 1, and a hash other than 0", n, keys)
	}
}

// The hash depends on every field of the records, and on nothing else.
func TestHash(t *testing.T) {
	recs := []limiter.Record{
		{Kind: limiter.Throttle, Key: []byte("a"), Expires: start + 5},
		{Kind: limiter.Throttle, Key: []byte("b"), Expires: start + 6},
		{Kind: limiter.TokenBucket, Key: []byte("c"), Expires: start + 7, State: []byte("state")},
		{Kind: limiter.WindowLog, Key: []byte("d"), Expires: start + 8, State: bytes.Repeat([]byte{1}, 300)},
	}
	hash := func(shards int, now uint64, recs ...limiter.Record) [2]uint64 {
		table := New(Config{Clock: newFakeClock().read, Replicated: true, Shards: shards})
		for _, rec := range recs {
			if err := table.Restore(rec, start); err != nil {
				t.Fatal(err)
			}
		}
		sum, n := table.Hash(now)
		return [2]uint64{sum, uint64(n)}
	}
	want := hash(1, start, recs...)
	if got := hash(8, start, recs[3], recs[1], recs[0], recs[3], recs[2]); got != want || got[1] != 4 {
		t.Errorf("the same records in another order: hash and count are %x, want %x", got, want)
	}
	if got := hash(2, start+6, recs...); got != hash(2, start, recs[2:]...) || got[1] != 2 {
		t.Errorf("when two of four records have expired: hash and count are %x, want the hash and the count of the other two records", got)
	}
	seen := map[[2]uint64]bool{want: true, hash(1, start): true, hash(1, start, recs[:3]...): true}
	for i := range recs {
		for _, change := range []func(r *limiter.Record){
			func(r *limiter.Record) { r.Key = []byte("e") },
			func(r *limiter.Record) { r.Expires++ },
			func(r *limiter.Record) { r.Kind = limiter.FixedWindow },
			func(r *limiter.Record) { r.Kind, r.State = limiter.SlidingWindow, []byte("other") },
		} {
			other := append([]limiter.Record{}, recs...)
			change(&other[i])
			seen[hash(4, start, other...)] = true
		}
	}
	if len(seen) != 3+4*len(recs) {
		t.Errorf("%d different hashes, want %d: one for each set of records", len(seen), 3+4*len(recs))
	}
}
