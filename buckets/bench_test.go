package buckets

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

const million = 1 << 20

// slow is a limit whose units do not recover during a test.
var slow = limiter.Limit{Max: 1000, Interval: time.Hour}

// numberedKey writes the 16-byte key of number n to key.
func numberedKey(key []byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64(append(key[:0], "user:000"...), n)
}

// scattered maps consecutive numbers to numbers below a million, in an order that causes few cache
// hits.
func scattered(i uint64) uint64 { return i * 0x9e3779b97f4a7c15 >> 44 }

// asker sends requests for numbered keys without allocating.
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

// BenchmarkDecide measures charges in a table of a million keys. The uniform case charges all keys.
// Two cache misses take most of the time of such a charge: one for the slot and one for the record.
// The hot case charges a single key and has no cache misses.
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

// BenchmarkDecideBatch measures charges in batches, in tables of one and ten million keys, on one core and on all
// cores. The cache misses of a batch overlap, so a decision takes less time than one miss (see BenchmarkWait).
func BenchmarkDecideBatch(b *testing.B) {
	for _, keys := range []int{million, 10 * million} {
		table := filled(keys, Config{})
		for _, size := range []int{1, 4, 16, 64} {
			b.Run(fmt.Sprintf("%dM/%d", keys/million, size), func(b *testing.B) {
				b.ReportAllocs()
				batch := newBatch(table, size, uint64(keys), 0)
				for b.Loop() {
					batch.decide()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/decision")
			})
			b.Run(fmt.Sprintf("%dM/%d-parallel", keys/million, size), func(b *testing.B) {
				b.ReportAllocs()
				var workers atomic.Uint64
				b.RunParallel(func(pb *testing.PB) {
					batch := newBatch(table, size, uint64(keys), workers.Add(1)<<40)
					for pb.Next() {
						batch.decide()
					}
				})
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/decision")
			})
		}
	}
}

// batch is a batch of requests. The order of their keys causes few cache hits.
type batch struct {
	table *Table
	reqs  []limiter.Request
	out   []limiter.Decision
	keys  uint64
	next  uint64
}

func newBatch(table *Table, size int, keys, from uint64) *batch {
	b := &batch{table: table, reqs: make([]limiter.Request, size), out: make([]limiter.Decision, size), keys: keys, next: from}
	often := limiter.Limit{Max: 1e6, Interval: time.Hour}
	for i := range b.reqs {
		b.reqs[i] = limiter.Request{Kind: limiter.Throttle, Limit: often, Quantity: 1}
	}
	return b
}

func (b *batch) decide() {
	for i := range b.reqs {
		number, _ := bits.Mul64(b.next*0x9e3779b97f4a7c15, b.keys)
		b.reqs[i].Key = numberedKey(b.reqs[i].Key, number)
		b.next++
	}
	b.table.Decide(b.reqs, b.out)
}

// BenchmarkCores measures pure arithmetic on one core and on all cores. It is the reference for the
// scaling of the parallel benchmarks on the current machine.
func BenchmarkCores(b *testing.B) {
	work := func() (h uint64) {
		for range 1000 {
			h = (h + 1) * 0x9e3779b97f4a7c15
			h ^= h >> 29
		}
		return h
	}
	var sum atomic.Uint64
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			sum.Add(work())
		}
	})
	b.Run("one-parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				sum.Add(work())
			}
		})
	})
}

// BenchmarkWait measures the latency of random loads from as much memory as a million keys take. The
// address of each load depends on the value of the previous one, so the loads cannot overlap.
func BenchmarkWait(b *testing.B) {
	next := make([]uint32, 12*million)
	const line = 16
	order := rand.New(rand.NewPCG(1, 2)).Perm(len(next) / line)
	for i, at := range order {
		next[at*line] = uint32(order[(i+1)%len(order)] * line)
	}
	at := uint32(0)
	for b.Loop() {
		at = next[at]
	}
}

// BenchmarkFill measures the insertion of a million new keys of 16 bytes, and their memory.
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

// BenchmarkRefuse measures the refusal of a new key at the memory limit.
func BenchmarkRefuse(b *testing.B) {
	table := filled(million, Config{MaxMemory: 16 << 20})
	a := newAsker(table, slow)
	b.ReportAllocs()
	for i := uint64(2 * million); b.Loop(); i++ {
		a.ask(i)
	}
}

// BenchmarkEvict measures the insertion of a new key that evicts others.
func BenchmarkEvict(b *testing.B) {
	for _, mb := range []int64{6, 64} {
		b.Run(fmt.Sprint(mb, "MiB"), func(b *testing.B) {
			table := filled(2*million, Config{MaxMemory: mb << 20, Eviction: EvictSmallestDebt})
			a := newAsker(table, slow)
			b.ReportAllocs()
			for i := uint64(2 * million); b.Loop(); i++ {
				a.ask(i)
			}
		})
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

// BenchmarkSweepExpired measures dropping a million expired keys.
func BenchmarkSweepExpired(b *testing.B) {
	clock := newFakeClock()
	for b.Loop() {
		b.StopTimer()
		table := filled(million, Config{Clock: clock.read})
		clock.advance(time.Duration(slow.Max) * slow.Interval)
		b.StartTimer()
		sweepAll(table)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*million), "ns/key")
}

// BenchmarkScan measures a call of Scan that visits ten keys, the default of the command SCAN.
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

// ample has a limit of each kind that no benchmark exhausts, except of logs, whose states grow with each request.
var ample = map[limiter.Kind]limiter.Limit{
	limiter.Throttle:      {Max: 1 << 30, Interval: time.Second},
	limiter.SlidingWindow: windowOf(1<<31, 1),
	limiter.FixedWindow:   windowOf(1<<31, 1),
	limiter.WindowBuckets: windowOf(1<<31, 10),
	limiter.TokenBucket:   bucketOf(1<<30, 1),
	limiter.LeakyBucket:   {Max: 1 << 30, Interval: time.Second},

	limiter.ScaledThrottle: {Max: 1 << 30, Interval: time.Second},
	limiter.ScaledBucket:   bucketOf(1<<30, 1),
	limiter.ScaledLeaky:    {Max: 1 << 30, Interval: time.Second},
	limiter.Calendar:       calendarOf(1<<31, 20),
}

// BenchmarkKinds measures charges of keys that are in the CPU cache: single requests of each kind,
// and groups of three requests.
func BenchmarkKinds(b *testing.B) {
	run := func(name string, reqs []limiter.Request) {
		b.Run(name, func(b *testing.B) {
			table := New(Config{})
			if strings.HasPrefix(name, "leased") {
				table = New(Config{Clock: newFakeClock().read}) // the lease does not end
				mustDraw(b, table, reqs[0])
			}
			out := make([]limiter.Decision, len(reqs))
			b.ReportAllocs()
			for b.Loop() {
				table.Decide(reqs, out)
			}
			if out[0].Err != nil || out[0].Limited {
				b.Fatalf("the first decision of the last batch: got %+v, want admitted", out[0])
			}
		})
	}
	var group []limiter.Request
	for kind := limiter.Throttle; kind <= lastCounting; kind++ {
		if l, found := ample[kind]; found {
			name := kind.Encoding()
			if kind >= limiter.ScaledThrottle && kind <= limiter.ScaledLeaky {
				name = "scaled " + name
			}
			req := charge(kind, fmt.Sprint("user:1234567:", int(kind)), l, 1)
			run(name, []limiter.Request{req})
			group = append(group, req)
			if kind.Raw() != "" {
				run("leased "+name, []limiter.Request{req})
			}
		}
	}
	run("three at once", linked(group[0], group[1], group[4]))
	for _, kind := range []limiter.Kind{limiter.Throttle, limiter.ScaledThrottle} {
		l := ample[kind]
		run(map[bool]string{true: "group of three Throttle requests", false: "group of three ScaledThrottle requests"}[kind == limiter.Throttle],
			linked(charge(kind, "a", l, 1), charge(kind, "b", l, 1), charge(kind, "c", l, 1)))
	}
}

// BenchmarkDecideUndoLog is like BenchmarkDecide, but on a replicated table. Changes are collected
// every 1000 decisions and committed two generations later.
func BenchmarkDecideUndoLog(b *testing.B) {
	table := New(Config{Replicated: true})
	table.Lead(1)
	a := newAsker(table, limiter.Limit{Max: 1e6, Interval: time.Hour})
	var changes []byte
	collect := func() {
		var generation uint64
		generation, changes = table.Collect(changes[:0])
		table.Commit(generation-2, start)
	}
	for i := range uint64(million) {
		if a.ask(i); i%1000 == 0 {
			collect()
		}
	}
	for _, bm := range []struct {
		name   string
		number func(uint64) uint64
	}{{"uniform", scattered}, {"hot", func(uint64) uint64 { return 7 }}} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := uint64(0); b.Loop(); i++ {
				if a.ask(bm.number(i)); i%1000 == 999 {
					collect()
				}
			}
		})
	}
}

// BenchmarkCollect measures closing a generation with 1 to 10,000 changed keys in a table of a million
// keys. It reports the time and the size of the changes per key.
func BenchmarkCollect(b *testing.B) {
	table := New(Config{Replicated: true})
	table.Lead(1)
	a := newAsker(table, slow)
	for i := range uint64(million) {
		a.ask(i)
	}
	var changes []byte
	next := uint64(0)
	for _, keys := range []int{1, 10, 100, 1000, 10_000} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			b.ReportAllocs()
			took := time.Duration(0)
			for b.Loop() {
				for range keys {
					a.ask(scattered(next))
					next++
				}
				begin := time.Now()
				var generation uint64
				generation, changes = table.Collect(changes[:0])
				took += time.Since(begin)
				table.Commit(generation, start)
			}
			b.ReportMetric(float64(took.Nanoseconds())/float64(b.N*keys), "ns/key")
			b.ReportMetric(float64(len(changes))/float64(keys), "bytes/key")
		})
	}
}

// BenchmarkReplay measures replaying generations of 1000 changed keys in a table of a million keys.
func BenchmarkReplay(b *testing.B) {
	leader := New(Config{Replicated: true})
	leader.Lead(1)
	a := newAsker(leader, slow)
	for i := range uint64(million) {
		a.ask(i)
	}
	_, all := leader.Collect(nil)
	var parts [][]byte
	for i := uint64(0); i < million/4; {
		for range 1000 {
			a.ask(scattered(i))
			i++
		}
		_, part := leader.Collect(nil)
		parts = append(parts, part)
	}
	table := New(Config{Replicated: true})
	if err := table.Replay(all, start); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := table.Replay(parts[i%len(parts)], start); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*1000), "ns/key")
}
