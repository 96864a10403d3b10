package buckets

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/throttledhq/throttled/internal/race"
	"github.com/throttledhq/throttled/limiter"
)

// A follower applies changes regardless of the memory limit.
func TestReplayHasNoMemoryLimit(t *testing.T) {
	leader, clock := leading(Config{Shards: 2})
	for i := range 5000 {
		ask(leader, fmt.Sprint(i), slow, 1)
	}
	changes := commitAll(t, leader)
	table := New(Config{Clock: clock.read, Replicated: true, Shards: 2, MaxMemory: 1000, Eviction: EvictSmallestDebt})
	if err := table.Replay(changes, start); err != nil {
		t.Fatal(err)
	}
	rec := limiter.Record{Kind: limiter.TokenBucket, Key: []byte("large"), Expires: start + 1e9, State: make([]byte, 5000)}
	if err := table.Restore(rec, start); err != nil {
		t.Fatal(err)
	}
	sweepAll(table)
	relieveAll(table)
	checkTable(t, table)
	if u := table.Usage(); u.Keys != 5001 || u.Evicted != 0 {
		t.Errorf("as a follower the usage is %+v, want 5001 keys and no evictions", u)
	}
	table.Lead(1)
	if d := ask(table, "new", slow, 0); d.Err != nil {
		t.Error(d.Err)
	}
	relieveAll(table)
	if u := table.Usage(); u.Bytes > 1000 || u.Evicted == 0 {
		t.Errorf("as the leader the usage is %+v, want at most 1000 bytes, and evictions", u)
	}
	if g, changes := table.Collect(nil); len(decoded(t, changes)) != 5001-int(table.Usage().Keys) {
		t.Errorf("generation %d has %d changes, want one per evicted key", g, len(decoded(t, changes)))
	}
	table.Follow()
	if u := table.Usage(); u.Keys != 5001 {
		t.Errorf("after the rollback the usage is %+v, want 5001 keys", u)
	}
	checkTable(t, table)
}

func TestReplayWhileLeading(t *testing.T) {
	table, _ := leading(Config{Shards: 1})
	changes, _ := madeChanges()
	if err := table.Replay(changes, start); !errors.Is(err, ErrLeading) {
		t.Errorf("Replay returns %v, want ErrLeading", err)
	}
	rec := limiter.Record{Kind: limiter.Throttle, Key: []byte("a"), Expires: start + 1}
	if err := table.Restore(rec, start); !errors.Is(err, ErrLeading) {
		t.Errorf("Restore returns %v, want ErrLeading", err)
	}
	if table.Usage().Keys != 0 || table.Pending() {
		t.Error("Replay or Restore on the leader has changed the table")
	}
}

func TestRestore(t *testing.T) {
	clock := newFakeClock()
	clock.advance(9)
	table := New(Config{Clock: clock.read, Replicated: true, Shards: 2})
	rec := limiter.Record{Kind: limiter.TokenBucket, Key: []byte("a"), Expires: start + 2, State: []byte{1}}
	if err := table.Restore(rec, start); err != nil || contentOf(table)["a"] == "" {
		t.Errorf("Restore of a new key: error %v, content %q; want no error, and key a", err, contentOf(table))
	}
	for _, kind := range []limiter.Kind{0, limiter.Ban + 1, 31, 32, 64, 128, 255} {
		if err := table.Restore(limiter.Record{Kind: kind, Key: []byte("b"), Expires: start + 2}, start); !errors.Is(err, ErrChanges) {
			t.Errorf("Restore of kind %d: %v, want ErrChanges", kind, err)
		}
	}
	rec.Kind, rec.State = limiter.WindowLog, make([]byte, 70_000)
	if err := table.Restore(rec, start+1); err != nil || len(contentOf(table)["a"]) < 70_000 {
		t.Errorf("Restore with another kind: error %v, content %q; want no error, and key a with 70,000 bytes of state", err, contentOf(table))
	}
	if err := table.Replay(nil, start+9); err != nil {
		t.Fatal(err)
	}
	table.Reset() // the next records may be from a log time before the last one
	if err := table.Restore(rec, start); err != nil {
		t.Fatal(err)
	}
	if sweepAll(table); table.Usage().Keys != 1 {
		t.Error("a restored record was dropped")
	}
	if err := table.Restore(rec, start+2); err != nil || table.Usage().Keys != 0 {
		t.Errorf("Restore of an expired record: error %v, content %q; want no error, and no keys", err, contentOf(table))
	}
	checkTable(t, table)
}

// randomLog returns the committed generations of a random run.
func randomLog(t *testing.T, seed uint64, n int) []generation {
	r := newReplicaRun(t, seed)
	for len(r.log) < n {
		switch k := r.IntN(10); {
		case k < 5:
			r.decide()
		case k < 6:
			r.clock.advance(time.Duration(r.Int64N(int64(time.Second))))
		case k < 7:
			mustDelete(r.leads, r.request().Key)
		case k < 8 && r.IntN(20) == 0:
			mustClear(r.leads)
		default:
			r.collect()
			r.commit()
		}
	}
	return r.log
}

// If some generations are replayed again, the final content is the same, even if expired records are
// dropped during the replay.
func TestReplayAgain(t *testing.T) {
	clock := newFakeClock()
	clock.advance(24 * time.Hour)
	for seed := range uint64(6) {
		log := randomLog(t, seed, 200)
		want := log[len(log)-1].content.after(log[len(log)-1].time)
		for from := 0; from < len(log); from += 7 * race.Factor {
			for until := from; until <= len(log); until += 23 {
				table := New(Config{Clock: clock.read, Replicated: true, Shards: 4})
				w := sweeper{table: table}
				for i, g := range slices.Concat(log[:until], log[from:]) {
					if err := table.Replay(g.changes, g.time); err != nil {
						t.Fatal(err)
					}
					for range i % 3 {
						w.step()
					}
				}
				sameContent(t, fmt.Sprint("generations up to ", until, ", and again from ", from), contentOf(table).after(log[len(log)-1].time), want)
				checkTable(t, table)
			}
		}
	}
}

// An update of the tail of a state is ignored if the key is absent, or if its state has a different
// kind or size.
func TestReplayTailOfAnother(t *testing.T) {
	log := limiter.Record{Kind: limiter.WindowLog, Key: []byte("log"), Expires: start + 5, State: make([]byte, 300)}
	tail := appendTail([]byte{changesVersion}, appendRecord(nil, &log), 200)
	for _, rec := range []limiter.Record{
		{Kind: limiter.Throttle, Key: []byte("log"), Expires: start + 9},
		{Kind: limiter.WindowLog, Key: []byte("log"), Expires: start + 9, State: make([]byte, 299)},
		{Kind: limiter.WindowLog, Key: []byte("log"), Expires: start + 9, State: make([]byte, 301)},
		{Kind: limiter.WindowBuckets, Key: []byte("log"), Expires: start + 9, State: make([]byte, 300)},
		{Kind: limiter.WindowLog, Key: []byte("other"), Expires: start + 9, State: make([]byte, 300)},
	} {
		table := New(Config{Clock: newFakeClock().read, Replicated: true, Shards: 1})
		if err := errors.Join(table.Restore(rec, start), table.Replay(tail, start)); err != nil {
			t.Fatal(err)
		}
		want := content{}
		want.add(rec, 0)
		sameContent(t, fmt.Sprint("kind ", rec.Kind, ", ", len(rec.State), " bytes of state"), contentOf(table), want)
	}
}
