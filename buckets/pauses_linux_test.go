package buckets

import (
	"math"
	"runtime"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/throttledhq/throttled/limiter"
)

// threadTime returns the CPU time of the current thread. It excludes preemption by the operating
// system.
func threadTime(tb testing.TB) time.Duration {
	const clockThread = 3 // CLOCK_THREAD_CPUTIME_ID
	var t syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockThread, uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		tb.Fatal(errno)
	}
	return time.Duration(t.Nano())
}

// BenchmarkPauses reports the longest CPU time of each operation that locks a shard for longer than a
// decision does. It runs these operations on all shards of a table of ten million keys.
func BenchmarkPauses(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	worst := map[string]time.Duration{}
	for b.Loop() {
		table := filled(10*million, Config{})
		var copied []byte
		for i := range table.shards {
			s := &table.shards[i]
			for _, work := range []struct {
				name string
				do   func()
			}{
				{"copy", func() { copied, _ = s.copyArena(copied, s.now) }},
				{"grow-index", func() { s.resizeIndex(2 * len(s.index)) }},
				{"grow-arena", func() { s.resizeArena(len(s.arena) + len(s.arena)/8) }},
				{"compact", func() {
					for at := range min(1000, len(s.index)) {
						if s.index[at] != 0 {
							s.remove(at)
						}
					}
					s.compact()
				}},
				{"evict", func() {
					s.evict(demandOf(&limiter.Record{Kind: limiter.Throttle, Expires: math.MaxUint64}, s.now), s.now)
				}},
				{"reclaim", func() { s.reclaim(s.now) }},
				{"sweep", func() { s.dropExpired(0, sweepSlots, s.now) }},
			} {
				begin := threadTime(b)
				work.do()
				worst[work.name] = max(worst[work.name], threadTime(b)-begin)
			}
		}
	}
	for name, d := range worst {
		b.ReportMetric(float64(d.Nanoseconds())/1000, "us-"+name)
	}
}
