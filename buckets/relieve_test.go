package buckets

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// relieveAll reduces the memory of a table to its limit, as far as possible.
func relieveAll(table *Table) {
	for r := newRelief(table); r.next(); {
		r.work(time.Hour)
	}
}

// lowered returns a table with 20,000 keys, a tenth of them exhausted, and a memory limit of 1/part of the memory in
// use. It also returns the usage of the table and the limit of the keys.
func lowered(e Eviction, shards int, part int64) (*Table, limiter.Usage, limiter.Limit) {
	table := New(Config{Clock: newFakeClock().read, Shards: shards, Eviction: e})
	l := limiter.Limit{Max: 10, Interval: time.Hour}
	for i := range 20_000 {
		ask(table, fmt.Sprint("k", i), l, int64(1+i%10))
	}
	before := table.Usage()
	table.SetMaxMemory(before.Bytes / part)
	return table, before, l
}

// While the used memory exceeds a lowered limit, no key is added and no state grows, even if the
// shard has room. Requests for existing keys are decided.
func TestLoweredLimitRefusesAtOnce(t *testing.T) {
	for _, e := range []Eviction{NoEviction, EvictSmallestDebt} {
		table, before, l := lowered(e, 8, 2)
		for i := range 1000 {
			if d := ask(table, fmt.Sprint("new", i), l, 10); !errors.Is(d.Err, limiter.ErrOutOfMemory) {
				t.Fatalf("a new key: got %+v, want ErrOutOfMemory", d)
			}
		}
		reqs := []limiter.Request{{Kind: limiter.Throttle, Key: []byte("g"), Limit: l, Quantity: 10, Linked: true}, {Kind: limiter.Throttle, Key: []byte("h"), Limit: l, Quantity: 10}}
		out := make([]limiter.Decision, 2)
		if table.Decide(reqs, out); !errors.Is(out[0].Err, limiter.ErrOutOfMemory) {
			t.Errorf("a group of new keys: got %+v, want ErrOutOfMemory", out)
		}
		for i := range 20_000 {
			if d := ask(table, fmt.Sprint("k", i), l, 1); d.Err != nil || d.Limited != (i%10 == 9) {
				t.Fatalf("existing key %d: got %+v; want no error, and limited only if the key is exhausted", i, d)
			}
		}
		if after := table.Usage(); after.Keys != before.Keys || after.Bytes != before.Bytes {
			t.Errorf("the usage changed from %+v to %+v; want the same keys and bytes", before, after)
		}
		checkTable(t, table)
	}
}

// If eviction is enabled, a lowered limit evicts the keys with the smallest used share. No key is evicted
// unnecessarily.
func TestRelief(t *testing.T) {
	for _, e := range []Eviction{NoEviction, EvictSmallestDebt} {
		for _, shards := range []int{1, 8, 256} {
			table, before, l := lowered(e, shards, 3)
			relieveAll(table)
			checkTable(t, table)
			limit, after := before.Bytes/3, table.Usage()
			if e == NoEviction && after.Keys != before.Keys {
				t.Errorf("%d of %d keys remain without eviction, want all", after.Keys, before.Keys)
			}
			if e == EvictSmallestDebt && (after.Bytes > limit || after.Bytes < limit/2 || after.Keys+after.Evicted != before.Keys) {
				t.Errorf("%d shards, limit %d: the usage changed from %+v to %+v; want Bytes from half of the limit to the limit, and each key kept or evicted", shards, limit, before, after)
			}
			for i := 9; i < 20_000; i += 10 {
				if d := ask(table, fmt.Sprint("k", i), l, 1); !d.Limited {
					t.Fatalf("exhausted key %d was evicted: a further charge got %+v", i, d)
				}
			}
		}
	}
}

// Relief also meets a memory limit at which not every shard can hold a few keys. Some shards keep their keys.
func TestReliefBelowAFewKeysForEachShard(t *testing.T) {
	table := New(Config{Clock: newFakeClock().read, Shards: 1024, Eviction: EvictSmallestDebt})
	l := limiter.Limit{Max: 10, Interval: time.Hour}
	for i := range 20_000 {
		ask(table, fmt.Sprint("k", i), l, 1)
	}
	for i := range 100 {
		ask(table, fmt.Sprint("exhausted", i), l, 10)
	}
	before := table.Usage()
	table.SetMaxMemory(100_000)
	relieveAll(table)
	checkTable(t, table)
	if u := table.Usage(); u.Bytes > 100_000 || u.Keys < 500 {
		t.Errorf("the usage changed from %+v to %+v; want at most 100,000 bytes, and at least 500 keys", before, u)
	}
	for i := range 100 {
		if d := ask(table, fmt.Sprint("exhausted", i), l, 1); !d.Limited {
			t.Fatalf("exhausted key %d was evicted: a further charge got %+v", i, d)
		}
	}
	table.SetMaxMemory(1)
	relieveAll(table)
	checkTable(t, table)
	if u := table.Usage(); u.Bytes > 1 || u.Keys != 0 {
		t.Errorf("with a limit of one byte the usage is %+v, want no keys", u)
	}
}

// Without eviction, unused memory of the shards is released, and new keys can be added.
func TestReliefGivesSlackBack(t *testing.T) {
	const limit = 500_000
	table, before, l := lowered(NoEviction, 8, 1)
	for i := range 12_000 {
		mustDelete(table, fmt.Append(nil, "k", i))
	}
	table.SetMaxMemory(limit)
	relieveAll(table)
	checkTable(t, table)
	if u := table.Usage(); u.Bytes > limit || u.Keys != 8000 {
		t.Errorf("the usage changed from %+v to %+v; want at most 500,000 bytes, and 8000 keys", before, u)
	}
	if d := ask(table, "new", l, 1); d.Err != nil {
		t.Error(d.Err)
	}
}

// A flood during relief does not keep the table above its limit, and each slice is flushed before
// the next slice starts.
func TestRunRelief(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, before, l := lowered(EvictSmallestDebt, 64, 10)
		ctx, cancel := context.WithCancel(t.Context())
		flushes, last := 0, before.Keys
		done := make(chan struct{})
		go func() {
			defer close(done)
			table.RunRelief(ctx, func() error {
				if flushes++; table.Usage().Keys >= last {
					t.Error("flush was called although nothing was evicted")
				}
				last = table.Usage().Keys
				return nil
			})
		}()
		for i := range 200 {
			ask(table, fmt.Sprint("new", i), l, 1)
			<-time.After(10 * time.Millisecond)
		}
		cancel()
		<-done
		if u := table.Usage(); u.Bytes > before.Bytes/10 || flushes == 0 {
			t.Errorf("the usage changed from %+v to %+v after %d flushes; want at most a tenth of the bytes, and a flush", before, u, flushes)
		}
	})
}

// If flush fails, no further slice is evicted before the next check.
func TestRunReliefWithoutReplication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _, _ := lowered(EvictSmallestDebt, 4, 10)
		ctx, cancel := context.WithCancel(t.Context())
		flushes := 0
		go table.RunRelief(ctx, func() error { flushes++; return limiter.ErrNotLeading })
		<-time.After(reliefEvery + reliefEvery/2)
		synctest.Wait()
		if flushes > 1 {
			t.Errorf("%d flushes before the next check, want at most 1", flushes)
		}
		cancel()
		synctest.Wait()
	})
}

// A follower releases unused memory, but does not evict.
func TestReliefWhileFollowing(t *testing.T) {
	leads, _ := leading(Config{Shards: 4})
	for i := range 5000 {
		ask(leads, fmt.Sprint("k", i), slow, 1)
	}
	_, changes := leads.Collect(nil)
	follows := New(Config{Clock: newFakeClock().read, Replicated: true, Shards: 4, MaxMemory: 1000, Eviction: EvictSmallestDebt})
	if err := follows.Replay(changes, start); err != nil {
		t.Fatal(err)
	}
	relieveAll(follows)
	checkTable(t, follows)
	if u := follows.Usage(); u.Keys != 5000 || u.Evicted != 0 {
		t.Errorf("the usage is %+v, want 5000 keys and no evictions", u)
	}
}
