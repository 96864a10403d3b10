package buckets

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// A rollback may exceed the memory limit. The restored records count as used memory.
func TestRollbackHasNoMemoryLimit(t *testing.T) {
	for _, shards := range []int{1, 8} {
		table, _ := leading(Config{Shards: shards})
		for i := range 3000 {
			ask(table, fmt.Sprint(i), slow, 1)
		}
		commitAll(t, table)
		before := contentOf(table)
		for i := range 3000 {
			mustDelete(table, fmt.Append(nil, i))
		}
		for range 4 {
			sweepAll(table) // releases the memory
		}
		table.SetMaxMemory(2000)
		ask(table, "new", slow, 1)
		used := table.Usage().Bytes
		table.Follow()
		checkTable(t, table)
		checkUndoLogs(t, table)
		sameContent(t, "after the rollback", contentOf(table), before)
		if got := table.Usage().Bytes; got <= used || got < 3000*20 {
			t.Errorf("%d bytes are used after the rollback, %d before; want more", got, used)
		}
		table.Lead(2)
		if d := ask(table, strings.Repeat("x", 100_000), slow, 1); d.Err == nil {
			t.Errorf("a new key was stored above the memory limit: %+v", d)
		}
	}
}

// A rollback restores evicted keys.
func TestRollbackOfEviction(t *testing.T) {
	table, _ := leading(Config{Shards: 1, MaxMemory: 20_000, Eviction: EvictSmallestDebt})
	flood(t, table, "a", 200, limiter.Limit{Max: 10, Interval: time.Second})
	commitAll(t, table)
	before := contentOf(table)
	for i := range 20 {
		flood(t, table, fmt.Sprint("b", i), 50, limiter.Limit{Max: 10, Interval: time.Minute})
		table.Collect(nil)
	}
	if table.Usage().Evicted < 200 {
		t.Fatalf("the usage is %+v, want at least 200 evicted keys", table.Usage())
	}
	table.Follow()
	checkTable(t, table)
	sameContent(t, "after the rollback", contentOf(table), before)
}

// A rollback restores a record whose key was deleted and then charged with a different
// kind.
func TestRollbackToAnotherKind(t *testing.T) {
	table, clock := leading(Config{Shards: 1})
	all := map[limiter.Kind]limiter.Limit{}
	for kind, of := range limits {
		all[kind] = of[0]
	}
	for first, l := range all {
		for second, m := range all {
			key := fmt.Sprint(first, second, int(first), int(second))
			decideAll(table, []limiter.Request{charge(first, key, l, 1)})
			commitAll(t, table)
			before := contentOf(table)
			mustDelete(table, []byte(key))
			if d := decideAll(table, []limiter.Request{charge(second, key, m, 1)}); d[0].Err != nil || d[0].Limited {
				t.Fatalf("a charge of the deleted key: got %+v, want admitted", d)
			}
			epoch := table.OpenGeneration().Epoch
			table.Follow()
			sameContent(t, key, contentOf(table), before)
			table.Lead(epoch + 1)
			clock.advance(time.Millisecond)
		}
	}
}

// Once the entries of a large undo log are committed, its buffers shrink.
func TestTidyUndoLog(t *testing.T) {
	table, _ := leading(Config{Shards: 1})
	for i := range 5000 {
		ask(table, fmt.Sprint(i), slow, 1)
	}
	u := &table.undoLogs[0]
	g, _ := table.Collect(nil)
	if sweepAll(table); len(u.entries) != 5000 {
		t.Errorf("%d entries before the commit, want 5000", len(u.entries))
	}
	table.Commit(g, start)
	if sweepAll(table); cap(u.bytes) > keepBytes || len(u.entries) != 0 {
		t.Errorf("after the commit, the undo log retains %d bytes and %d entries; want at most keepBytes, 0", cap(u.bytes), len(u.entries))
	}
}
