package buckets

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttledhq/throttled/internal/race"
	"github.com/throttledhq/throttled/limiter"
)

// round runs a complete scan. After each call of Scan but the last, it calls the argument between. It
// returns the number of visits of each key and the number of calls of Scan.
func round(tb testing.TB, table *Table, count int, between func()) (visits map[string]int, calls int) {
	tb.Helper()
	visits = map[string]int{}
	for cursor := uint64(0); ; {
		next := table.Scan(cursor, count, func(key []byte, kind limiter.Kind) {
			if kind != limiter.Throttle {
				tb.Errorf("key %q has kind %v, want Throttle", key, kind)
			}
			visits[string(key)]++
		})
		if calls++; next == 0 {
			return visits, calls
		}
		if next <= cursor || next>>32 >= uint64(len(table.shards)) {
			tb.Fatalf("Scan returns cursor %#x for cursor %#x in a table of %d shards; want a higher cursor of one of these shards", next, cursor, len(table.shards))
		}
		cursor = next
		between()
	}
}

func TestScanVisitsEachKeyOnce(t *testing.T) {
	for _, n := range []int{0, 1, 7, 100, 5000} {
		for _, shards := range []int{1, 8, 512} {
			for _, count := range []int{math.MinInt, -1, 0, 1, 10, 1000, math.MaxInt} {
				table := filled(n, Config{Shards: shards})
				visits, calls := round(t, table, count, func() {})
				if len(visits) != n {
					t.Errorf("%d keys in %d shards, count %d: %d keys visited, want all", n, shards, count, len(visits))
				}
				for key, times := range visits {
					if times != 1 {
						t.Errorf("%d keys in %d shards, count %d: %q visited %d times, want once", n, shards, count, key, times)
					}
				}
				if most := 20 + 2*n/max(count, 1) + n; calls > most {
					t.Errorf("%d keys in %d shards, count %d: %d calls, which are too many", n, shards, count, calls)
				}
			}
		}
	}
}

// Keys that exist during the whole scan are visited. Meanwhile other keys are added and deleted, so
// that indexes grow, fill, empty and shrink.
func TestScanWhileTheTableChanges(t *testing.T) {
	const stable = 2000 / race.Factor
	for _, shards := range []int{1, 4} {
		for _, count := range []int{1, 10, 100} {
			r := rand.New(rand.NewPCG(uint64(shards), uint64(count)))
			table := filled(stable, Config{Clock: newFakeClock().read, Shards: shards})
			sweep := sweeper{table: table}
			added, calls, growing := 0, 0, true
			churn := func() {
				calls++
				if calls%50 == 0 {
					growing = !growing
				}
				for range r.IntN(40 * count / race.Factor) {
					if growing {
						ask(table, fmt.Sprint("other", added), slow, 1)
						added++
					} else if added > 0 {
						added--
						mustDelete(table, fmt.Appendf(nil, "other%d", added))
					}
				}
				sweep.step()
			}
			visits, _ := round(t, table, count, churn)
			var key []byte
			for i := range uint64(stable) {
				key = numberedKey(key, i)
				if visits[string(key)] == 0 {
					t.Errorf("%d shards, count %d: %q was not visited in %d calls", shards, count, key, calls)
				}
			}
			checkTable(t, table)
		}
	}
}

// If an index grows between two calls of Scan, the keys of one home are divided among several homes. If
// an index shrinks, the keys of several homes get the same home. In both cases each key is visited
// exactly once.
func TestScanAcrossResizes(t *testing.T) {
	for _, size := range []int{512, 4096, 256} {
		table := filled(200, Config{Shards: 1})
		s := &table.shards[0]
		resizes := 0
		visits, _ := round(t, table, 7, func() {
			if resizes++; resizes%2 == 0 {
				s.resizeIndex(size)
			} else {
				s.resizeIndex(256)
			}
		})
		for key, times := range visits {
			if times != 1 {
				t.Errorf("resized to %d: %q visited %d times, want once", size, key, times)
			}
		}
		if len(visits) != 200 || resizes < 10 {
			t.Errorf("resized to %d: %d keys visited, %d resizes; want 200, at least 10", size, len(visits), resizes)
		}
	}
}

// A call of Scan visits about as many keys as requested. In a sparse index a call visits fewer
// keys, so that it stays short.
func TestScanHonoursCount(t *testing.T) {
	const n = 50_000
	table := filled(n, Config{Shards: 16})
	for _, count := range []int{1, 10, 1000} {
		for cursor := uint64(0); ; {
			visited := 0
			cursor = table.Scan(cursor, count, func([]byte, limiter.Kind) { visited++ })
			if visited > count+16 || cursor != 0 && visited < count/2 {
				t.Fatalf("count %d: a call visited %d keys; want half of the count to 16 more than the count", count, visited)
			}
			if cursor == 0 {
				break
			}
		}
	}
	for i := range uint64(n - 50) {
		mustDelete(table, numberedKey(nil, i))
	}
	if visits, calls := round(t, table, 10, func() {}); len(visits) != 50 || calls < 100 {
		t.Errorf("sparse index: %d calls, %d keys visited; want at least 100, 50", calls, len(visits))
	}
}

func TestScanOmitsExpired(t *testing.T) {
	clock := newFakeClock()
	table := New(Config{Clock: clock.read, Shards: 2})
	for i := range 100 {
		ask(table, fmt.Sprint(i), limiter.Limit{Max: 1, Interval: time.Duration(i+1) * time.Second}, 1)
	}
	clock.advance(40 * time.Second)
	visits, _ := round(t, table, 10, func() {})
	if len(visits) != 60 || visits["39"] != 0 || visits["40"] != 1 {
		t.Errorf("%d keys visited, want the 60 that have not expired", len(visits))
	}
}

// A scan from an arbitrary cursor ends, and its cursors are ascending.
func TestScanFromAnyCursor(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	table := filled(1000, Config{Shards: 8})
	for i := range 5000 / race.Factor {
		cursor := r.Uint64() >> r.UintN(64)
		if i == 0 {
			cursor = math.MaxUint64
		}
		for calls := 0; ; calls++ {
			next := table.Scan(cursor, 50, func([]byte, limiter.Kind) {})
			if next == 0 {
				break
			}
			if next <= cursor || calls > 100 {
				t.Fatalf("Scan returns cursor %#x for cursor %#x in call %d; want a higher cursor, and at most 100 calls", next, cursor, calls)
			}
			cursor = next
		}
	}
}

// TestRandomKey checks that RandomKey finds a key at any position, and that it returns each of many
// keys with a similar frequency.
func TestRandomKey(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, shards := range []int{1, 8, 512} {
		if key, found := filled(0, Config{Shards: shards}).RandomKey(r.Uint64()); found {
			t.Errorf("RandomKey of an empty table with %d shards returns %q", shards, key)
		}
		for _, n := range []int{1, 2, 100} {
			table := filled(n, Config{Shards: shards})
			const rounds = 200
			drawn := map[string]int{}
			draws := 0
			for ; draws < n*rounds || len(drawn) < n && draws < 100*n*rounds; draws++ {
				key, found := table.RandomKey(r.Uint64())
				if !found {
					t.Fatalf("%d keys in %d shards: RandomKey finds no key", n, shards)
				}
				drawn[string(key)]++
			}
			for key, times := range drawn {
				if _, there := table.Lookup([]byte(key)); !there || times > 10*draws/n {
					t.Errorf("%d keys in %d shards: %q, which is not in the table or is drawn too often, is drawn %d times", n, shards, key, times)
				}
			}
			if len(drawn) != n {
				t.Errorf("%d keys in %d shards: %d different keys were drawn, want all", n, shards, len(drawn))
			}
		}
	}
}

func TestRandomKeyIsAlive(t *testing.T) {
	clock := newFakeClock()
	table := filled(100, Config{Clock: clock.read, Shards: 8})
	clock.advance(100 * 365 * 24 * time.Hour)
	for i := range uint64(100) {
		if key, found := table.RandomKey(i << 32); found {
			t.Errorf("RandomKey returns %q, which has expired; want no key", key)
		}
	}
}
