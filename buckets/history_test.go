package buckets

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// leading returns a replicated table that is the leader in epoch 1.
func leading(c Config) (*Table, *fakeClock) {
	clock := newFakeClock()
	c.Clock, c.Replicated = clock.read, true
	t := New(c)
	t.Lead(1)
	return t, clock
}

// inShard returns a key of the given shard.
func inShard(t *Table, number int) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint("key ", i); t.shardOf(t.hash([]byte(key))) == number {
			return key
		}
	}
}

// token returns the CommitToken of a batch that charges quantity to each key.
func token(t *Table, quantity int64, keys ...string) limiter.CommitToken {
	var reqs []limiter.Request
	for _, key := range keys {
		reqs = append(reqs, charge(limiter.Throttle, key, slow, quantity))
	}
	return t.Decide(reqs, make([]limiter.Decision, len(reqs)))
}

// commitAll closes the open generation and commits it.
func commitAll(tb testing.TB, t *Table) (changes []byte) {
	tb.Helper()
	g, changes := t.Collect(nil)
	if !t.Commit(g, t.Now()) {
		tb.Fatalf("Commit of generation %d returns false, want true", g)
	}
	return changes
}

// A follower refuses decisions and changes nothing.
func TestFollowing(t *testing.T) {
	table := New(Config{Clock: newFakeClock().read, Replicated: true, Shards: 4})
	key := []byte("key")
	if err := table.Restore(limiter.Record{Kind: limiter.Throttle, Key: key, Expires: start + 1e9}, start); err != nil {
		t.Fatal(err)
	}
	before := contentOf(table)
	for _, reqs := range [][]limiter.Request{
		{charge(limiter.Throttle, "key", slow, 1)},
		{charge(limiter.Throttle, "key", slow, 0), charge(limiter.Throttle, "other", slow, -1)},
		linked(charge(limiter.Throttle, "key", slow, 1), charge(limiter.Throttle, "other", slow, 1)),
	} {
		out := make([]limiter.Decision, len(reqs))
		if got := table.Decide(reqs, out); got != (limiter.CommitToken{}) {
			t.Errorf("Decide on a follower returns the token %+v, want the zero token", got)
		}
		for _, d := range out {
			if !errors.Is(d.Err, limiter.ErrNotLeading) {
				t.Errorf("a decision on a follower: got %+v, want ErrNotLeading", d)
			}
		}
	}
	if found, err := table.Delete(key); found || err != limiter.ErrNotLeading {
		t.Errorf("Delete on a follower returns %t, %v; want false, ErrNotLeading", found, err)
	}
	if err := table.Clear(); err != limiter.ErrNotLeading {
		t.Errorf("Clear on a follower returns %v, want ErrNotLeading", err)
	}
	if _, found := table.Lookup(key); !found {
		t.Error("Lookup on a follower does not find the key")
	}
	if g, changes := table.Collect([]byte("x")); g != 0 || string(changes) != "x" {
		t.Errorf("Collect on a follower returns %d, %q; want 0 and the unmodified buffer", g, changes)
	}
	if table.Commit(0, start) || table.Commit(1, start) || table.Pending() || table.OpenGeneration() != (limiter.CommitToken{}) || table.LastWrite() != (limiter.CommitToken{}) {
		t.Error("on a follower, Commit or Pending returns true, or OpenGeneration or LastWrite returns a nonzero token")
	}
	if table.WaitCommitted(limiter.CommitToken{Epoch: 1, Generation: 1}) != nil {
		t.Error("WaitCommitted of a table returns an error")
	}
	table.Follow()
	sameContent(t, "after calls on a follower", contentOf(table), before)
	table.Reset()
	if n := table.Usage().Keys; n != 0 {
		t.Errorf("%d keys after Reset, want none", n)
	}
}

// A table that is not replicated returns zero CommitTokens.
func TestNoUndoLog(t *testing.T) {
	table := New(Config{Clock: newFakeClock().read})
	if got := token(table, 1, "key"); got != (limiter.CommitToken{}) || table.OpenGeneration() != got || table.WaitCommitted(got) != nil {
		t.Errorf("the token is %+v, OpenGeneration returns %+v; want zero tokens, and no error of WaitCommitted", got, table.OpenGeneration())
	}
	if g, changes := table.Collect(nil); g != 0 || changes != nil || table.Commit(0, start) || table.Pending() {
		t.Errorf("Collect returns %d, %q; want 0 and nothing; Commit and Pending must return false", g, changes)
	}
	if err := table.Replay(nil, start); !errors.Is(err, ErrLeading) {
		t.Errorf("Replay returns %v, want ErrLeading", err)
	}
	table.Follow()
	if table.Usage().Keys != 1 {
		t.Error("Follow has removed the key of a table that is not replicated")
	}
}

func TestLeadPanics(t *testing.T) {
	lead, _ := leading(Config{Shards: 1})
	for what, f := range map[string]func(){
		"twice":             func() { lead.Lead(2) },
		"in epoch 0":        func() { New(Config{Replicated: true, Shards: 1}).Lead(0) },
		"not replicated":    func() { New(Config{Shards: 1}).Lead(1) },
		"Reset on a leader": func() { lead.Reset() },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("the call does not panic: %s", what)
				}
			}()
			f()
		}()
	}
}

// A CommitToken names the latest generation in which the shards of a batch have changed. If that
// generation is committed, the CommitToken has generation 0.
func TestCommitToken(t *testing.T) {
	table, _ := leading(Config{Shards: 4})
	a, b, c := inShard(table, 0), inShard(table, 1), inShard(table, 2)
	want := func(what string, got limiter.CommitToken, generation uint64) {
		t.Helper()
		if got != (limiter.CommitToken{Epoch: 1, Generation: generation}) {
			t.Errorf("%s: the token is %+v, want generation %d", what, got, generation)
		}
	}
	const refused = 1001
	want("the beginning", table.OpenGeneration(), 1)
	want("LastWrite before any change", table.LastWrite(), 0)
	want("a peek at nothing", token(table, 0, a), 0)
	want("a refusal in unchanged shards", token(table, refused, a, b), 0)
	if table.Pending() {
		t.Error("Pending returns true after a peek and refusals")
	}
	want("a charge", token(table, 1, a), 1)
	want("a refusal in the same shard", token(table, refused, a), 1)
	want("a refusal in an unchanged shard", token(table, refused, b), 0)
	want("a batch over three shards", token(table, refused, b, a, c), 1)
	if !table.Pending() {
		t.Error("Pending returns false after a charge")
	}
	want("a charge seen", table.LastWrite(), 1)
	if g, _ := table.Collect(nil); g != 1 || table.Pending() {
		t.Errorf("Collect closes generation %d, then Pending returns %t; want 1, false", g, table.Pending())
	}
	want("OpenGeneration after Collect", table.OpenGeneration(), 2)
	want("the last write after the generation is closed", table.LastWrite(), 1)
	want("a refusal while generation 1 is in flight", token(table, refused, a), 1)
	want("a peek while generation 1 is in flight", token(table, 0, a, b), 1)
	want("a charge in another shard", token(table, 1, b), 2)
	want("a batch over shards of generations 1 and 2", token(table, refused, b, a), 2)
	want("a charge", token(table, 1, a), 2)
	table.Commit(1, start)
	want("a peek at an open change after an older commit", token(table, 0, a), 2)
	table.Collect(nil)
	want("a peek at a change in flight", token(table, 0, a), 2)
	table.Commit(2, start)
	want("the last write after all is committed", table.LastWrite(), 0)
	want("a refusal when all is committed", token(table, refused, a, b), 0)
	if mustDelete(table, []byte(a)); !table.Pending() {
		t.Error("Pending returns false after a deletion")
	}
	want("a peek at a deleted key", token(table, 0, a), 3)
	table.Collect(nil)
	mustClear(table)
	want("a peek at a cleared key", token(table, 0, c), 4)
}

// The CommitToken of a group is determined by the same rule as the CommitToken of a batch.
func TestCommitTokenOfGroup(t *testing.T) {
	table, _ := leading(Config{Shards: 4})
	group := func(quantity int64, first, second string) limiter.CommitToken {
		reqs := linked(charge(limiter.Throttle, first, slow, 1), charge(limiter.Throttle, second, slow, quantity))
		return table.Decide(reqs, make([]limiter.Decision, 2))
	}
	a, b, c := inShard(table, 0), inShard(table, 1), inShard(table, 2)
	for i, tt := range []struct {
		quantity      int64
		first, second string
		want          uint64
	}{
		{1001, a, b, 0}, {1, a, a, 0}, {1, a, b, 1}, {1001, c, b, 1}, {1001, b, c, 1}, {1, c, c, 0},
	} {
		if got := group(tt.quantity, tt.first, tt.second); got.Generation != tt.want || got.Epoch != 1 {
			t.Errorf("case %d: the token is %+v, want epoch 1, generation %d", i, got, tt.want)
		}
	}
}

// While a generation is being closed, a CommitToken names that generation or the next one. It names the next one until
// the dirty bit of the shard is cleared.
func TestCommitTokenWhileCollecting(t *testing.T) {
	table, _ := leading(Config{Shards: 4})
	a := inShard(table, 0)
	token(table, 1, a)
	table.open.Add(1)
	if got := token(table, 0, a); got.Generation != 2 {
		t.Errorf("before the dirty bit is cleared: the token is %+v, want generation 2", got)
	}
	marks := table.dirty[0].Swap(0)
	if got := token(table, 1, a); got.Generation != 1 {
		t.Errorf("after the dirty bit is cleared, before the shard is collected: the token is %+v, want generation 1", got)
	}
	if table.dirty[0].Load() != 0 || marks != 1 {
		t.Errorf("the dirty bits are %b after the charge, and were %b before they were cleared; want 0, 1", table.dirty[0].Load(), marks)
	}
	table.shards[0].collect(nil, 1, start)
	if got := token(table, 0, a); got.Generation != 1 {
		t.Errorf("after the shard is collected: the token is %+v, want generation 1", got)
	}
	if got := token(table, 1, a); got.Generation != 2 || table.dirty[0].Load() != 1 {
		t.Errorf("after the next charge: the token is %+v, the dirty bits are %b; want generation 2, 1", got, table.dirty[0].Load())
	}
}

// Generations of different epochs have different numbers, and a generation of an earlier epoch cannot be committed.
func TestCommitOfAnotherEpoch(t *testing.T) {
	table, _ := leading(Config{Shards: 2})
	var closed []uint64
	for epoch := uint64(2); epoch < 5; epoch++ {
		token(table, 1, "a", "b")
		g, _ := table.Collect(nil)
		if slices.Contains(closed, g) {
			t.Errorf("generation number %d is used in two epochs", g)
		}
		closed = append(closed, g)
		token(table, 1, "a", "c")
		table.Follow()
		table.Follow()
		if n := table.Usage().Keys; n != 0 {
			t.Errorf("%d keys after the rollback, want none", n)
		}
		table.Lead(epoch)
		for _, g := range append(closed, table.OpenGeneration().Generation) {
			if table.Commit(g, start+1e9) {
				t.Errorf("Commit of generation %d in epoch %d returns true, want false: the generation is of another epoch, or open", g, epoch)
			}
		}
		if settled := table.settled.Load(); settled != 0 {
			t.Errorf("after rejected commits settled is %d, want 0", settled)
		}
		if got := token(table, 0, "a", "b", "c"); got != (limiter.CommitToken{Epoch: epoch}) {
			t.Errorf("the token of a peek is %+v, want generation 0 of the new epoch", got)
		}
	}
}

// A batch that started in one epoch does not continue in the next.
func TestBatchOfAnotherEpoch(t *testing.T) {
	clock := newFakeClock()
	var table *Table
	turns, epoch := 0, uint64(0)
	table = New(Config{Replicated: true, Shards: 4, Clock: func() uint64 {
		if turns++; turns == 1 {
			table.Follow()
			epoch++
			table.Lead(epoch)
		}
		return clock.read() + 1e9
	}})
	for _, reqs := range [][]limiter.Request{
		{charge(limiter.Throttle, "a", slow, 1)},
		{charge(limiter.Throttle, "a", slow, 1), charge(limiter.Throttle, "b", slow, 1)},
		linked(charge(limiter.Throttle, "a", slow, 1), charge(limiter.Throttle, "b", slow, 1)),
	} {
		turns = 0
		table.Follow()
		epoch++
		table.Lead(epoch)
		began := epoch
		out := make([]limiter.Decision, len(reqs))
		if got := table.Decide(reqs, out); got.Epoch != began || got.Generation != 0 {
			t.Errorf("the token is %+v, want generation 0 of the epoch in which the batch started", got)
		}
		for _, d := range out {
			if !errors.Is(d.Err, limiter.ErrNotLeading) {
				t.Errorf("a decision after the end of the epoch: got %+v, want ErrNotLeading", d)
			}
		}
		turns = 0
		if found, err := table.Delete([]byte("a")); found || err != limiter.ErrNotLeading {
			t.Errorf("Delete after the end of the epoch returns %t, %v; want false, ErrNotLeading", found, err)
		}
		for i := range table.shards {
			if now := table.shards[i].now; now != 0 {
				t.Errorf("the time of shard %d is %d, want 0", i, now)
			}
		}
		checkUndoLogs(t, table)
	}
}

// A new epoch may start at an earlier time than the latest time of the previous epoch.
func TestTimeOfNextEpoch(t *testing.T) {
	table, clock := leading(Config{Shards: 1})
	l := limiter.Limit{Max: 10, Interval: time.Second}
	ask(table, "a", l, 10)
	commitAll(t, table)
	clock.advance(5 * time.Second)
	if d := ask(table, "a", l, 1); d.Remaining != 4 {
		t.Errorf("in epoch 1, at 5 s: got %+v, want 4 remaining units", d)
	}
	table.Follow()
	clock.now.Store(start + 2e9)
	if e, _ := table.Lookup([]byte("a")); e.TTL != 8*time.Second {
		t.Errorf("as a follower: Lookup returns %+v, want a TTL of 8 s", e)
	}
	table.Lead(2)
	if d := ask(table, "a", l, 1); d.Remaining != 1 {
		t.Errorf("in epoch 2, at 2 s: got %+v, want 1 remaining unit", d)
	}
	table.Follow()
	clock.now.Store(start - 1e9) // Lead does not permit this; even so, no decision uses a time before the settled time
	table.Lead(3)
	if d := ask(table, "a", l, 1); !d.Limited || d.RetryAfter != time.Second {
		t.Errorf("in epoch 3, with a clock before the settled time: got %+v; want limited, RetryAfter 1 s", d)
	}
}

// A record that has expired on the leader is absent for decisions, but is retained until it has
// expired on all nodes.
func TestExpiredIsKeptUntilSettled(t *testing.T) {
	table, clock := leading(Config{Shards: 1})
	once := limiter.Limit{Max: 1, Interval: 10 * time.Second}
	for _, key := range []string{"touched", "charged", "left", "deleted", "replaced"} {
		ask(table, key, once, 1)
	}
	clock.advance(5 * time.Second)
	commitAll(t, table)
	committed := contentOf(table)
	clock.advance(15 * time.Second)
	ask(table, "touched", once, 0)
	ask(table, "charged", once, 1)
	mustDelete(table, []byte("deleted"))
	table.Decide([]limiter.Request{charge(limiter.TokenBucket, "replaced", bucketOf(5, 1), 1)}, make([]limiter.Decision, 1))
	sweepAll(table)
	if n := table.Usage().Keys; n != 4 {
		t.Errorf("%d keys before the commit, want 4", n)
	}
	if _, found := table.Lookup([]byte("left")); found {
		t.Error("an expired key was found")
	}
	table.Follow()
	sameContent(t, "after the rollback", contentOf(table), committed)
	clock.now.Store(start + 8e9)
	table.Lead(2)
	for key := range committed {
		if d := ask(table, key, once, 1); !d.Limited || d.RetryAfter != 2*time.Second {
			t.Errorf("%q in epoch 2: got %+v; want limited, RetryAfter 2 s", key, d)
		}
	}
	clock.now.Store(start + 10e9)
	commitAll(t, table)
	sweepAll(table)
	if n := table.Usage().Keys; n != 0 {
		t.Errorf("%d keys remain after all have expired on all nodes", n)
	}
}

// After records have been dropped, no decision uses a time at which they were live.
func TestDroppedForGood(t *testing.T) {
	table, clock := leading(Config{Shards: 1})
	once := limiter.Limit{Max: 1, Interval: 10 * time.Second}
	ask(table, "a", once, 1)
	clock.advance(20 * time.Second)
	commitAll(t, table)
	sweepAll(table)
	clock.now.Store(start + 5e9) // the time read by a slow batch
	if d := ask(table, "b", once, 1); d.Limited || contentOf(table)["b"] == "" || record(contentOf(table)["b"]).expires() != start+30e9 {
		t.Errorf("a charge by a slow batch: got %+v, content %q; want admitted, and key b to expire at 30 s", d, contentOf(table))
	}
}

// Until Clear is committed, a rollback restores the keys and their counted memory. The commit releases
// the memory.
func TestClearRolledBack(t *testing.T) {
	table, _ := leading(Config{Shards: 4})
	for i := range 1000 {
		ask(table, fmt.Sprint(i), slow, 1)
	}
	commitAll(t, table)
	ask(table, "1", slow, 1)
	ask(table, "new", slow, 1)
	before, bytes := contentOf(table), table.Usage().Bytes
	g, _ := table.Collect(nil)
	ask(table, "2", slow, 1)
	mustClear(table)
	if u := table.Usage(); u.Keys != 0 || u.Bytes != 0 {
		t.Errorf("after Clear the usage is %+v, want no keys and no bytes", u)
	}
	ask(table, "3", slow, 1)
	mustClear(table)
	ask(table, "3", slow, 5)
	ask(table, "new", slow, 5)
	checkUndoLogs(t, table)
	table.Collect(nil)
	ask(table, "4", slow, 1)
	table.Commit(g, start)
	table.Follow()
	checkTable(t, table)
	checkUndoLogs(t, table)
	sameContent(t, "after the rollback", contentOf(table), before)
	if u := table.Usage(); u.Bytes != bytes {
		t.Errorf("after the rollback %d bytes are used, want %d as before", u.Bytes, bytes)
	}

	table.Lead(2)
	mustClear(table)
	ask(table, "5", slow, 1)
	commitAll(t, table)
	for i := range table.undoLogs {
		if u := &table.undoLogs[i]; len(u.images) > 0 || len(u.entries) > 0 || u.images[:1][0].arena != nil {
			t.Errorf("after the commit of Clear, shard %d retains %d images and %d entries, or memory of an image", i, len(u.images), len(u.entries))
		}
	}
}

// Once the buffers of the undo logs have grown, decisions on a replicated table, Collect and Commit do not allocate.
func TestUndoLogAllocatesNothing(t *testing.T) {
	table, clock := leading(Config{Shards: 4})
	var reqs []limiter.Request
	for kind, of := range limits {
		for i := range 4 {
			reqs = append(reqs, charge(kind, fmt.Sprint(int(kind), i), of[0], 1))
		}
	}
	reqs = append(reqs, linked(charge(limiter.Throttle, "a", slow, 1), charge(limiter.Throttle, "b", slow, 1))...)
	out := make([]limiter.Decision, len(reqs))
	var buf []byte
	turn := 0
	round := func() {
		turn++
		if i := turn % len(reqs); i < len(reqs)-2 {
			table.Decide(reqs[i:i+1], out[:1])
		} else {
			table.Decide(reqs, out)
		}
		clock.advance(time.Millisecond)
		var g uint64
		g, buf = table.Collect(buf[:0])
		table.Commit(g-1, clock.read())
	}
	for range 1000 {
		round()
		clock.advance(time.Second)
	}
	if n := testing.AllocsPerRun(200, round); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
