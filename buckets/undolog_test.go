package buckets

import (
	"fmt"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// The undo log has at most two entries for a key that changes any number of times in a generation.
func TestUndoLogEntriesPerKey(t *testing.T) {
	one := func(kind limiter.Kind, l limiter.Limit, quantities ...int64) func(t *Table) {
		return func(t *Table) {
			for _, q := range quantities {
				t.Decide([]limiter.Request{charge(kind, "key", l, q)}, make([]limiter.Decision, 1))
			}
		}
	}
	ample := limiter.Limit{Max: 1 << 30, Interval: time.Second}
	for what, tt := range map[string]struct {
		do   func(t *Table)
		most int
	}{
		"refused":                  {one(limiter.Throttle, slow, 1001, 0), 0},
		"charged":                  {one(limiter.Throttle, ample, 1, 2), 1},
		"charged, refunded":        {one(limiter.Throttle, slow, 1, -1), 1},
		"charged, brought to rest": {one(limiter.TokenBucket, bucketOf(100, 7), 1, -100), 1},
		"deleted":                  {func(t *Table) { ask(t, "key", slow, 1); mustDelete(t, []byte("key")) }, 1},
		"a growing log":            {one(limiter.WindowLog, logOf(1<<40, 60_000), 1), 2},
		"charged and refunded with two kinds": {func(t *Table) {
			one(limiter.Throttle, slow, 1, -1)(t)
			one(limiter.WindowLog, logOf(1000, 100), 1, -1)(t)
		}, 1},
	} {
		for _, there := range []bool{false, true} {
			table, _ := leading(Config{Shards: 1})
			if there {
				tt.do(table)
				commitAll(t, table)
			}
			for range 1000 {
				tt.do(table)
			}
			if n := len(table.undoLogs[0].entries); n > tt.most {
				t.Errorf("%s, key exists beforehand %t: %d entries, want at most %d", what, there, n, tt.most)
			}
		}
	}
}

// Entries of committed generations are dropped when the shard changes again. Entries of
// uncommitted generations are retained.
func TestTrim(t *testing.T) {
	table, _ := leading(Config{Shards: 1})
	u := &table.undoLogs[0]
	var open []uint64
	for i := range 50 {
		for k := range 1 + i%4 {
			ask(table, fmt.Sprint("key ", i%7, k), slow, 1)
		}
		if i%9 == 8 {
			mustClear(table)
			ask(table, "key", slow, 1)
		}
		g, _ := table.Collect(nil)
		if open = append(open, g); len(open) > 2 {
			table.Commit(open[0], start)
			open = open[1:]
		}
		if want := 3; len(u.closed) > want || len(u.images) > want || len(u.entries) > 4*6 || len(u.bytes) > 4*6*30 {
			t.Errorf("after generation %d: %d marks, %d images, %d entries of %d bytes; want at most 3, 3, 24, 720", g, len(u.closed), len(u.images), len(u.entries), len(u.bytes))
		}
		for e := range u.entries {
			if u.entries[e].at != cleared && len(u.record(&u.entries[e]).key()) < 3 {
				t.Fatalf("entry %d has key %q, which is shorter than all keys of the test", e, u.record(&u.entries[e]).key())
			}
		}
		checkUndoLogs(t, table)
	}
	table.Commit(open[1], start)
	if sweepAll(table); len(u.entries)+len(u.bytes)+len(u.closed)+len(u.images) > 0 {
		t.Errorf("after the last commit, the undo log is not empty: %+v", u)
	}
}
