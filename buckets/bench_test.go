package buckets

import (
	"encoding/binary"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

const million = 1 << 20

// slow is a limit that forgets nothing during a test.
var slow = limiter.Limit{Max: 1000, Interval: time.Hour}

// numberedKey writes the number's key of 16 bytes over key.
func numberedKey(key []byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64(append(key[:0], "user:000"...), n)
}

// scattered counts through the numbers below a million in an order that defeats caches.
func scattered(i uint64) uint64 { return i * 0x9e3779b97f4a7c15 >> 44 }

// asker asks for numbered keys without allocating.
type asker struct {
	table *Table
	reqs  [1]limiter.Request
	out   [1]limiter.Decision
}

func newAsker(table *Table, l limiter.Limit) *asker {
	a := &asker{table: table}
	a.reqs[0] = limiter.Request{Kind: limiter.Throttle, Limit: l, Quantity: 1}
	return a
}

func (a *asker) ask(n uint64) {
	a.reqs[0].Key = numberedKey(a.reqs[0].Key, n)
	a.table.Decide(a.reqs[:], a.out[:])
}

// filled returns a table that holds n numbered keys.
func filled(n int, c Config) *Table {
	t := New(c)
	a := newAsker(t, slow)
	for i := range uint64(n) {
		a.ask(i)
	}
	return t
}

// BenchmarkDecide measures a decision and its storing among a million keys. Uniform is
// bound by two cache misses, for the slot and for the record; hot has none.
func BenchmarkDecide(b *testing.B) {
	table := filled(million, Config{})
	often := limiter.Limit{Max: 1e6, Interval: time.Hour}
	hot := func(uint64) uint64 { return 7 }
	for _, bm := range []struct {
		name   string
		number func(uint64) uint64
	}{{"uniform", scattered}, {"hot", hot}} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			a := newAsker(table, often)
			for i := uint64(0); b.Loop(); i++ {
				a.ask(bm.number(i))
			}
		})
		b.Run(bm.name+"-parallel", func(b *testing.B) {
			b.ReportAllocs()
			var workers atomic.Uint64
			b.RunParallel(func(pb *testing.PB) {
				a := newAsker(table, often)
				for i := workers.Add(1) << 32; pb.Next(); i++ {
					a.ask(bm.number(i))
				}
			})
		})
	}
}

// BenchmarkDecideBatch measures a decision as part of a pipeline of 16.
func BenchmarkDecideBatch(b *testing.B) {
	const size = 16
	table := filled(million, Config{})
	reqs := make([]limiter.Request, size)
	out := make([]limiter.Decision, size)
	for i := range reqs {
		reqs[i] = limiter.Request{Kind: limiter.Throttle, Limit: slow, Quantity: 1}
	}
	for i := uint64(0); b.Loop(); i += size {
		for j := range reqs {
			reqs[j].Key = numberedKey(reqs[j].Key, scattered(i+uint64(j)))
		}
		table.Decide(reqs, out)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/decision")
}

// BenchmarkFill measures a million new keys of 16 bytes, and what they take.
func BenchmarkFill(b *testing.B) {
	var table *Table
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for b.Loop() {
		table = filled(million, Config{})
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*million), "ns/key")
	b.ReportMetric(float64(table.Usage().Bytes)/million, "bytes/key")
	b.ReportMetric(float64(heap()-before)/million, "heap-bytes/key")
	runtime.KeepAlive(table)
}

// BenchmarkRefuse measures a new key for which there is no memory.
func BenchmarkRefuse(b *testing.B) {
	table := filled(million, Config{MaxMemory: 16 << 20})
	a := newAsker(table, slow)
	b.ReportAllocs()
	for i := uint64(2 * million); b.Loop(); i++ {
		a.ask(i)
	}
}

// BenchmarkSweep measures a step of the sweeper over live keys.
func BenchmarkSweep(b *testing.B) {
	w := sweeper{table: filled(million, Config{})}
	slots := 0
	b.ReportAllocs()
	for b.Loop() {
		seen, _, _ := w.step()
		slots += seen
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(slots), "ns/slot")
}

// BenchmarkSweepExpired measures dropping a million keys.
func BenchmarkSweepExpired(b *testing.B) {
	clock := newFakeClock()
	for b.Loop() {
		b.StopTimer()
		table := filled(million, Config{Clock: clock.tell})
		clock.advance(time.Duration(slow.Max) * slow.Interval)
		b.StartTimer()
		sweepAll(table)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*million), "ns/key")
}

// BenchmarkScan measures a call that visits ten keys, which is what SCAN does by default.
func BenchmarkScan(b *testing.B) {
	table := filled(million, Config{})
	visited := 0
	var cursor uint64
	b.ReportAllocs()
	for b.Loop() {
		cursor = table.Scan(cursor, 10, func([]byte, limiter.Kind) { visited++ })
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(visited), "ns/key")
}
