package buckets

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttledhq/throttled/internal/race"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/window"
	"github.com/throttledhq/throttled/windowlog"
)

// linked makes a group of requests.
func linked(reqs ...limiter.Request) []limiter.Request {
	for i := range reqs {
		reqs[i].Linked = i < len(reqs)-1
	}
	return reqs
}

func charge(kind limiter.Kind, key string, l limiter.Limit, quantity int64) limiter.Request {
	return limiter.Request{Kind: kind, Key: []byte(key), Limit: l, Quantity: quantity}
}

func decideAll(t *Table, reqs []limiter.Request) []limiter.Decision {
	out := make([]limiter.Decision, len(reqs))
	t.Decide(reqs, out)
	return out
}

// used returns the number of used units of a key. It peeks.
func used(t *Table, req limiter.Request) int64 {
	req.Quantity, req.Linked = 0, false
	return req.Limit.Max - decideAll(t, []limiter.Request{req})[0].Remaining
}

// oneOfEachKind returns a group with one request of every kind.
func oneOfEachKind(quantity int64) []limiter.Request {
	var reqs []limiter.Request
	for kind := limiter.Throttle; kind <= lastCounting; kind++ {
		reqs = append(reqs, charge(kind, fmt.Sprint("key", int(kind)), limits[kind][0], quantity))
	}
	return linked(reqs...)
}

// TestGroupIsChargedWholeOrNotAtAll checks that no request of a group is charged if one of them is
// refused. The limit of each request is 5 units.
func TestGroupIsChargedWholeOrNotAtAll(t *testing.T) {
	for _, shards := range []int{1, 64} {
		table := New(Config{Clock: newFakeClock().read, Shards: shards})
		for i, d := range decideAll(table, oneOfEachKind(2)) {
			if d.Err != nil || d.Limited || d.Remaining != 3 {
				t.Fatalf("request %d of an admitted group: got %+v, want admitted with 3 remaining units", i, d)
			}
		}
		for refusing := range oneOfEachKind(0) {
			reqs := oneOfEachKind(2)
			reqs[refusing].Quantity = 4
			for i, d := range decideAll(table, reqs) {
				if d.Err != nil || d.Remaining != 3 || d.Limited != (i == refusing) || (d.RetryAfter == limiter.NoRetry) == d.Limited {
					t.Errorf("request %d of a group in which request %d exceeds its limit: got %+v; want only that request limited, and 3 remaining units", i, refusing, d)
				}
			}
		}
		for _, d := range decideAll(table, oneOfEachKind(-2)) {
			if d.Limited || d.Remaining != 5 || d.ResetAfter != 0 {
				t.Errorf("refund of the group: got %+v, want the full limit", d)
			}
		}
		if u := table.Usage(); u.Keys != 0 {
			t.Errorf("%d keys after a complete refund, want none", u.Keys)
		}
		checkTable(t, table)
	}
}

func TestGroupErrors(t *testing.T) {
	table := New(Config{Clock: newFakeClock().read, Shards: 8})
	fixed := charge(limiter.FixedWindow, "w", limits[limiter.FixedWindow][0], 1)
	decideAll(table, []limiter.Request{fixed})
	before := table.Usage()
	f := func(name string, at int, reason error, reqs ...limiter.Request) {
		t.Helper()
		for i, d := range decideAll(table, linked(reqs...)) {
			want := limiter.Decision{Err: limiter.ErrGroup}
			if i == at {
				want.Err = reason
			}
			if d != want {
				t.Errorf("%s: decision %d is %+v, want %+v", name, i, d, want)
			}
		}
		if u := table.Usage(); u.Keys != before.Keys || u.Changes != before.Changes {
			t.Errorf("%s: the group was not charged, but the number of keys or of changes has changed: the usage is %+v", name, u)
		}
	}
	a, b := charge(limiter.Throttle, "a", slow, 1), charge(limiter.Throttle, "b", slow, 1)
	f("a key twice", 2, limiter.ErrSameKey, a, b, a)
	f("a key three times", 2, limiter.ErrSameKey, a, b, b, b)
	held, wrong := limiter.WrongKindError(limiter.FixedWindow), charge(limiter.Throttle, "w", slow, 1)
	f("a key of another kind at the end", 2, held, a, b, wrong)
	f("a key of another kind at the beginning", 0, held, wrong, a, b)
	f("a key of another kind in the middle", 1, held, a, wrong, b)
	if n := used(table, fixed); n != 1 {
		t.Errorf("%d units of the window are used, want 1", n)
	}
}

// Batches may contain several groups among single requests. A group is never split.
func TestGroupsInBatches(t *testing.T) {
	for size := 1; size <= limiter.MaxGroup; size++ {
		table := New(Config{Clock: newFakeClock().read, Shards: 4})
		var batch []limiter.Request
		once := charge(limiter.Throttle, "once", limiter.Limit{Max: 1, Interval: time.Hour}, 1)
		for n := range 5 {
			batch = append(batch, charge(limiter.Throttle, fmt.Sprint("single", n), slow, 1))
			var group []limiter.Request
			for i := range size - 1 {
				group = append(group, charge(limiter.Throttle, fmt.Sprint("member", i), slow, 1))
			}
			batch = append(batch, linked(append(group, once)...)...) // the last member determines the result of the group
		}
		for i, d := range decideAll(table, batch) {
			first := i/(size+1) == 0
			if last := i%(size+1) == size; last && d.Limited == first || !last && d.Limited || d.Err != nil {
				t.Fatalf("groups of %d requests: decision %d is %+v; want Limited only for the last request of each group but the first", size, i, d)
			}
		}
		for i := range size - 1 {
			if n := used(table, charge(limiter.Throttle, fmt.Sprint("member", i), slow, 0)); n != 1 {
				t.Fatalf("groups of %d: member %d was charged %d times, want once", size, i, n)
			}
		}
	}
}

// With any memory limit, a group is stored completely or not at all.
func TestGroupOutOfMemory(t *testing.T) {
	for _, shards := range []int{1, 4} {
		refused, admitted := 0, 0
		for limit := int64(100); limit < 6000; limit += 50 * race.Factor {
			table := New(Config{Clock: newFakeClock().read, Shards: shards, MaxMemory: limit})
			for n := range 40 {
				reqs := oneOfEachKind(1)
				for i := range reqs {
					reqs[i].Key = fmt.Appendf(nil, "key %d of group %d", i, n)
				}
				want := int64(1)
				if err := decideAll(table, reqs)[0].Err; errors.Is(err, limiter.ErrOutOfMemory) {
					want = 0
					refused++
				} else {
					admitted++
				}
				for _, req := range reqs {
					if got := used(table, req); got != want {
						t.Fatalf("limit %d, group %d: %s has %d units used, want %d", limit, n, req.Key, got, want)
					}
				}
			}
			checkTable(t, table)
		}
		if want := 100 / race.Factor; refused < want || admitted < want {
			t.Errorf("%d groups refused, %d admitted; want at least %d of each", refused, admitted, want)
		}
	}
}

// If a key is evicted to make room for its own group, the key is still charged: the group is decided again after the
// eviction, and stored only then.
func TestGroupEvictsItsOwn(t *testing.T) {
	second := limiter.Seconds(1)
	for kind, l := range map[limiter.Kind]limiter.Limit{
		limiter.Throttle:      {Max: 1000, Interval: time.Millisecond},
		limiter.FixedWindow:   must(window.NewLimit(1000, second, 1)),
		limiter.WindowBuckets: must(window.NewLimit(1000, second, 9)),
		limiter.WindowLog:     must(windowlog.NewLimit(1000, second, 100)),
	} {
		evicted := 0
		for size := int64(300); size < 3000; size += 10 * race.Factor {
			evicted += groupsWithOwn(t, charge(kind, "own", l, 1), size)
		}
		if evicted < 20/race.Factor {
			t.Errorf("%v: the existing key was evicted only %d times", kind, evicted)
		}
	}
}

// groupsWithOwn charges groups that consist of one existing key with a small debt and several new keys with a large
// debt. It returns how often the existing key was evicted to make room for the new keys.
func groupsWithOwn(t *testing.T, own limiter.Request, size int64) (evicted int) {
	clock := newFakeClock()
	table := New(Config{Clock: clock.read, Shards: 1, MaxMemory: size, Eviction: EvictSmallestDebt})
	decideAll(table, []limiter.Request{own})
	for n := range 60 {
		clock.advance(time.Microsecond)
		before := used(table, own)
		reqs := linked(own,
			charge(limiter.Throttle, fmt.Sprint("debtor ", n), slow, slow.Max),
			charge(limiter.FixedWindow, fmt.Sprint("another debtor ", n), windowOf(100, 1), 100))
		out := decideAll(table, reqs)
		if out[0].Err != nil {
			continue // all other keys have higher ranks, so not enough can be evicted
		}
		after := own.Limit.Max - out[0].Remaining
		if evicting := before > 0 && after == 1; evicting {
			evicted++
		} else if after != before+1 {
			t.Fatalf("%v, memory %d, group %d: the existing key has %d units used, had %d before; want one more, or 1 after an eviction", own.Kind, size, n, after, before)
		}
		for _, req := range reqs {
			want := req.Quantity
			if string(req.Key) == "own" {
				want = after
			}
			if got := used(table, req); got != want {
				t.Fatalf("%v, memory %d, group %d: %s has %d units used, want %d", own.Kind, size, n, req.Key, got, want)
			}
		}
		checkTable(t, table)
	}
	return evicted
}

// TestGroupsUnderEviction checks that an admitted group is charged completely, regardless of the content of the table.
// A log that is evicted to make room for its own group starts again as an empty log, and may then need more room than
// before.
func TestGroupsUnderEviction(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	brief := must(windowlog.NewLimit(1<<60, limiter.Period{N: 1, Unit: time.Millisecond}, 100))
	key := func(n int) string { return fmt.Sprintf("%*d", 5+r.IntN(40), n) }
	evicted := 0
	for range 30_000 / race.Factor {
		table := New(Config{Clock: newFakeClock().read, Shards: 1 + r.IntN(2), Eviction: EvictSmallestDebt, MaxMemory: int64(320 + r.IntN(5000))})
		own := []limiter.Request{
			charge(limiter.WindowLog, "own log", brief, 1),
			charge(limiter.WindowLog, "another own log", brief, 1),
			charge(limiter.FixedWindow, "own window", must(window.NewLimit(1<<60, limiter.Seconds(1), 1)), 1),
		}[:1+r.IntN(3)]
		decideAll(table, own)
		for n := range r.IntN(20) {
			decideAll(table, []limiter.Request{charge(limiter.Throttle, key(n), slow, slow.Max)})
		}
		reqs := slices.Clone(own)
		before := make([]int64, len(own))
		for i := range own {
			before[i] = used(table, own[i])
			reqs[i].Quantity = 1 << r.IntN(50)
		}
		for n := range 1 + r.IntN(3) {
			reqs = append(reqs, charge(limiter.Throttle, key(100+n), slow, slow.Max))
		}
		gone := table.Usage().Evicted
		if out := decideAll(table, linked(reqs...)); out[0].Err != nil {
			for i := range own {
				if got := used(table, own[i]); got != before[i] && got != 0 {
					t.Fatalf("group refused for lack of memory: %s has %d units used, had %d before; want the same, or 0 after an eviction", own[i].Key, got, before[i])
				}
			}
			continue
		}
		for i, req := range reqs {
			got := used(table, req)
			if i < len(own) && got == req.Quantity && before[i] > 0 && table.Usage().Evicted > gone {
				evicted++
			} else if i < len(own) && got != before[i]+req.Quantity || i >= len(own) && got != req.Quantity {
				t.Fatalf("%s has %d units used after a charge of %d; want its previous units plus the charge", req.Key, got, req.Quantity)
			}
		}
		checkTable(t, table)
	}
	if evicted < 100/race.Factor {
		t.Errorf("keys of the group itself were evicted only %d times", evicted)
	}
}

// TestGroupsAtOnce decides concurrent groups over the same keys at a fixed time. At the end each
// key must have been charged once per admitted group that contains it.
func TestGroupsAtOnce(t *testing.T) {
	const keys, calls = 40, 2000
	table := New(Config{Clock: newFakeClock().read, Shards: 16})
	of := func(key int) limiter.Request {
		kind := limiter.Kind(1 + key%int(lastCounting))
		max := int64(500 + 300*key)
		l := map[limiter.Kind]limiter.Limit{
			limiter.Throttle: {Max: max, Interval: time.Second}, limiter.LeakyBucket: {Max: max, Interval: time.Second},
			limiter.WindowLog: logOf(max, 65536), limiter.TokenBucket: bucketOf(max, 1),
			limiter.WindowBuckets: windowOf(max, 5), limiter.Calendar: calendarOf(max, 20),
			limiter.ScaledThrottle: {Max: max, Interval: time.Second}, limiter.ScaledLeaky: {Max: max, Interval: time.Second},
			limiter.ScaledBucket: bucketOf(max, 1),
		}[kind]
		if l.Max == 0 {
			l = windowOf(max, 1)
		}
		return charge(kind, fmt.Sprint("key", key), l, 1)
	}
	var charged [keys]atomic.Int64
	var refused atomic.Int64
	together(16, func(worker int) {
		r := rand.New(rand.NewPCG(uint64(worker), 7))
		for range calls {
			members := r.Perm(keys)[:1+r.IntN(6)]
			var reqs []limiter.Request
			for _, key := range members {
				reqs = append(reqs, of(key))
			}
			out := decideAll(table, linked(reqs...))
			if slices.ContainsFunc(out, func(d limiter.Decision) bool { return d.Limited || d.Err != nil }) {
				refused.Add(1)
				continue
			}
			for _, key := range members {
				charged[key].Add(1)
			}
		}
	})
	for key := range keys {
		if got, want := used(table, of(key)), charged[key].Load(); got != want {
			t.Errorf("key %d: %d units used, but %d groups that contain it were admitted", key, got, want)
		}
	}
	if n := refused.Load(); n < calls || n > 15*calls {
		t.Errorf("%d of %d groups were refused; want 1/16 to 15/16 of them", n, 16*calls)
	}
	checkTable(t, table)
}

// Groups do not allocate, except for new keys and logs.
func TestGroupAllocatesNothing(t *testing.T) {
	table := New(Config{Clock: newFakeClock().read})
	quantity := int64(1)
	var out [lastCounting]limiter.Decision
	reqs := oneOfEachKind(1)
	for _, tt := range []struct {
		name       string
		quantities []int64
	}{
		{"charge and refund", []int64{1, -1}},
		{"peek", []int64{0}},
		{"refuse", []int64{6}},
	} {
		n := testing.AllocsPerRun(200, func() {
			for _, quantity = range tt.quantities {
				for i := range reqs {
					reqs[i].Quantity = quantity
				}
				table.Decide(reqs, out[:])
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations, want none", tt.name, n)
		}
	}
}

// A pooled scratch does not retain references to states after a group has been decided. Otherwise it would retain
// memory that the table has released.
func TestGroupLetsGo(t *testing.T) {
	table := New(Config{Clock: newFakeClock().read, Shards: 4})
	reqs := oneOfEachKind(1)
	out := make([]limiter.Decision, len(reqs))
	var d scratch
	hashes := make([]uint64, len(reqs))
	for i := range reqs {
		hashes[i] = table.hash(reqs[i].Key)
	}
	for range 2 {
		table.decideGroup(reqs, hashes, start, &d, out)
		for i := range d.olds {
			if d.olds[i].Data != nil || d.changes[i].Tail != nil {
				t.Fatalf("the scratch retains the state of request %d", i)
			}
		}
	}
}

// Decisions on an existing key do not allocate, regardless of the kind, unless a log grows.
func TestKindsAllocateNothing(t *testing.T) {
	table := New(Config{Clock: newFakeClock().read})
	var out [1]limiter.Decision
	for kind, of := range limits {
		for _, l := range of {
			key := fmt.Sprint("key", int(kind), l.Max, l.Amount)
			f := func(name string, quantities ...int64) {
				t.Helper()
				reqs := []limiter.Request{charge(kind, key, l, 1)}
				n := testing.AllocsPerRun(200, func() {
					for _, reqs[0].Quantity = range quantities {
						table.Decide(reqs, out[:])
					}
				})
				if n != 0 || out[0].Err != nil {
					t.Errorf("%v with limit %d, %s: %v allocations, error %v; want no allocation and no error", kind, l.Max, name, n, out[0].Err)
				}
			}
			decideAll(table, []limiter.Request{charge(kind, key, l, 1)})
			if l.Max > 1 && l.Interval > time.Microsecond {
				f("charge and refund", 1, -1)
			}
			f("peek", 0)
			f("refuse", l.Max)
		}
	}
}
