package buckets

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// decoded decodes encoded changes.
func decoded(tb testing.TB, changes []byte) (list []change) {
	tb.Helper()
	if len(changes) == 0 {
		return nil
	}
	for r := readerOf(changes[1:]); len(r.Rest) > 0; {
		c, err := r.change()
		if err != nil {
			tb.Fatal(err)
		}
		list = append(list, c)
	}
	return list
}

// names formats changes as a list of operations with their keys.
func names(list []change) string {
	var b strings.Builder
	for _, c := range list {
		fmt.Fprintf(&b, "%s%s ", map[byte]string{changeClear: "clear", changeDelete: "-", opPut: "", changeTail: "~"}[c.op], c.rec.Key)
	}
	return b.String()
}

// A generation contains one change for each key that has changed in it, and no other changes.
func TestCollect(t *testing.T) {
	table, _ := leading(Config{Shards: 1})
	for i, step := range []struct {
		do   func()
		want string
	}{
		{func() {}, ""},
		{func() { token(table, 0, "a"); token(table, 1001, "a") }, ""},
		{func() { token(table, 1, "a", "b", "a"); token(table, 1, "a") }, "a b "},
		{func() { token(table, 1001, "a", "b") }, ""},
		{func() { token(table, -1, "b"); token(table, 1, "a") }, "-b a "},
		{func() { mustDelete(table, []byte("a")); mustDelete(table, []byte("a")) }, "-a "},
		{func() { token(table, 1, "c", "d"); mustDelete(table, []byte("c")) }, "-c d "},
		{func() { mustDelete(table, []byte("d")); token(table, 1, "d") }, "d "},
		{func() {
			for range 1000 {
				token(table, 1, "flip")
				token(table, -1, "flip")
			}
		}, "-flip "},
		{func() {
			token(table, 1, "e", "d")
			mustClear(table)
			token(table, 1, "f", "d")
		}, "clear-e d f "},
		{func() { mustClear(table) }, "clear"},
		{func() {}, ""},
	} {
		step.do()
		g, changes := table.Collect([]byte("before"))
		rest, found := bytes.CutPrefix(changes, []byte("before"))
		if got := names(decoded(t, rest)); !found || strings.ReplaceAll(got, "clear ", "clear") != step.want {
			t.Errorf("step %d: Collect returns the changes %q, want %q", i, got, step.want)
		}
		if g != uint64(1+i) {
			t.Errorf("Collect closes generation %d, want %d", g, 1+i)
		}
		checkUndoLogs(t, table)
		if i%3 == 0 {
			table.Commit(g, start)
		}
	}
}

// TestCollectTail checks that Collect sends only the changed tail of a large state if the followers
// certainly hold the rest of the state.
func TestCollectTail(t *testing.T) {
	table, clock := leading(Config{Shards: 1})
	follower := New(Config{Clock: clock.read, Replicated: true, Shards: 2})
	l := logOf(1<<40, 10_000)
	add := func(n int) {
		for range n {
			clock.advance(time.Millisecond)
			table.Decide([]limiter.Request{charge(limiter.WindowLog, "log", l, 1)}, make([]limiter.Decision, 1))
		}
	}
	replay := func(what string, most int, tail bool) {
		t.Helper()
		changes := commitAll(t, table)
		list := decoded(t, changes)
		if len(list) != 1 || (list[0].op == changeTail) != tail || len(changes) > most {
			t.Errorf("%s: got %d changes, the first with op %#x, in %d bytes; want 1 change, a tail if and only if the step expects a tail, in at most %d bytes", what, len(list), list[0].op, len(changes), most)
		}
		if err := follower.Replay(changes, clock.read()); err != nil {
			t.Fatal(err)
		}
		sameContent(t, what, contentOf(follower), contentOf(table))
	}
	add(2000)
	replay("new log", 10_000, false)
	size := func() int { return len(contentOf(table)["log"]) }
	for before := size(); size() == before; {
		add(1)
	}
	replay("log whose state changed its size", 10_000, false)
	for i := range 5 {
		add(1 + i)
		replay("some more", 1500, true)
	}
	add(3)
	g, _ := table.Collect(nil)
	sum, _ := follower.Hash(clock.read())
	add(3)
	if got, _ := table.Hash(clock.read()); got != sum {
		t.Error("the hash of the leader includes uncommitted generations, or differs from the hash of the follower")
	}
	table.Follow()
	sameContent(t, "after the rollback of two generations", contentOf(table), contentOf(follower))
	checkUndoLogs(t, table)
	table.Lead(2)
	if table.Commit(g, clock.read()) {
		t.Error("a rolled-back generation was committed")
	}
	add(3)
	replay("after the rollback", 1500, true)
	add(2000)
	replay("log that has grown by 2000 entries", 20_000, false)

	// A generation in which the large state first changes and is then deleted.
	add(1)
	mustDelete(table, []byte("log"))
	replay("deleted", 10, false)
	add(2000)
	replay("again", 10_000, false)
	add(1)
	before := contentOf(follower)
	clock.advance(30 * time.Second)
	sweepAll(table)
	clock.advance(-30 * time.Second)
	commitAll(t, table) // at a log time before the expiry of the log
	table.Follow()
	if sameContent(t, "the follower", contentOf(follower), before); contentOf(table)["log"] == "" {
		t.Error("after Follow the former leader does not hold the key log")
	}
}

// TestCollectTailOfExpired changes a live state. When the change is collected, the previous state
// has expired, so it may be absent on followers. Collect must therefore send the complete new
// state.
func TestCollectTailOfExpired(t *testing.T) {
	table, clock := leading(Config{Shards: 1})
	l := logOf(1<<40, 10_000)
	charge := func() {
		table.Decide([]limiter.Request{charge(limiter.WindowLog, "log", l, 1)}, make([]limiter.Decision, 1))
	}
	for range 1000 {
		clock.advance(time.Millisecond)
		charge()
	}
	commitAll(t, table)
	clock.advance(19 * time.Second)
	charge()
	clock.advance(5 * time.Second)
	list := decoded(t, commitAll(t, table))
	if len(list) != 1 || list[0].op != opPut || len(list[0].rec.State) < 1000 {
		t.Errorf("got %d changes, the first with op %#x; want 1 put with the complete state", len(list), list[0].op)
	}
}

// TestTailIsNotDropped checks that a record stays in memory while an undo entry holds only the tail of
// its previous state, even if the record has expired on all nodes.
func TestTailIsNotDropped(t *testing.T) {
	table, clock := leading(Config{Shards: 1})
	l := logOf(1<<40, 10_000)
	do := func(quantity int64) {
		table.Decide([]limiter.Request{charge(limiter.WindowLog, "log", l, quantity)}, make([]limiter.Decision, 1))
	}
	for range 1000 {
		clock.advance(10 * time.Millisecond)
		do(1)
	}
	commitAll(t, table)
	before := contentOf(table)
	clock.advance(10 * time.Second)
	do(-1) // the refund makes the record expire slightly earlier
	old, rec := record(before["log"]).expires(), record(contentOf(table)["log"]).expires()
	if rec >= old || !tailed(table) {
		t.Fatalf("the record expires at %d after the refund, and at %d before the refund; want an earlier time, and an undo entry with only a tail", rec, old)
	}
	first, _ := table.Collect(nil)
	clock.now.Store(rec)
	table.settled.Store(rec) // as after the commit of another generation
	sweepAll(table)
	do(0)
	table.Follow()
	sameContent(t, "after the rollback", contentOf(table), before)
	if table.Commit(first, rec) {
		t.Error("a rolled-back generation was committed")
	}
	sweepAll(table)
	clock.now.Store(old)
	if err := table.Replay(nil, old); err != nil {
		t.Fatal(err)
	}
	if sweepAll(table); table.Usage().Keys != 0 {
		t.Error("the expired log was not dropped")
	}
}

// tailed reports whether an undo log of a table has an entry that holds only the tail of a state.
func tailed(t *Table) bool {
	for i := range t.undoLogs {
		for _, e := range t.undoLogs[i].entries {
			if e.from > 0 {
				return true
			}
		}
	}
	return false
}
