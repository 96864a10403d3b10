package wal

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"
)

// BenchmarkStoreLogs stores one entry per call and periodically deletes old entries, like
// raft. The cases "bolt" use bbolt alone. The cases "front" use a Log, and their results include the
// cost of the move to bbolt and of the deletion.
func BenchmarkStoreLogs(b *testing.B) {
	for _, sync := range []bool{false, true} {
		for _, size := range []int{200, 2 << 10, 20 << 10} {
			b.Run(fmt.Sprintf("bolt/sync=%v/%d", sync, size), func(b *testing.B) {
				storeMany(b, openBolt(b, b.TempDir(), sync), size)
			})
			b.Run(fmt.Sprintf("front/sync=%v/%d", sync, size), func(b *testing.B) {
				dir := b.TempDir()
				l, err := Open(Config{Dir: dir, Base: openBolt(b, dir, sync), Sync: sync})
				must(b, err)
				storeMany(b, l, size)
				must(b, l.Close())
			})
		}
	}
}

// BenchmarkAppend measures StoreLogs with a base store that discards the entries.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{200, 2 << 10, 20 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			l, err := Open(Config{Dir: b.TempDir(), Base: &sink{}})
			must(b, err)
			storeMany(b, l, size)
			must(b, l.Close())
		})
	}
}

// storeMany stores one entry per iteration, and keeps the newest 10000 to 20000 entries.
func storeMany(b *testing.B, l raft.LogStore, size int) {
	const step = 10000
	entry := command(1, 1, size)
	one := []*raft.Log{entry}
	b.ReportAllocs()
	b.SetBytes(int64(size))
	before := cpuTime(b)
	for i := uint64(1); b.Loop(); i++ {
		entry.Index = i
		must(b, l.StoreLogs(one))
		if i%step == 0 && i > step {
			must(b, l.DeleteRange(i-2*step+1, i-step))
		}
	}
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
}

// cpuTime returns the CPU time of the process in nanoseconds, including all goroutines.
func cpuTime(b *testing.B) int64 {
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkMove measures the cost of moving an entry to bbolt for several batch sizes.
func BenchmarkMove(b *testing.B) {
	for _, size := range []int{2 << 10, 20 << 10} {
		for _, n := range []int{64, 200, 1024} {
			b.Run(fmt.Sprintf("%d/batch=%d", size, n), func(b *testing.B) {
				db := openBolt(b, b.TempDir(), false)
				next := uint64(1)
				for b.Loop() {
					must(b, db.StoreLogs(commands(next, next+uint64(n)-1, 1, size)))
					next += uint64(n)
					if next > 20000 {
						must(b, db.DeleteRange(next-20000-uint64(n), next-20000))
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/entry")
			})
		}
	}
}

// BenchmarkGetLog reads entries that are in memory.
func BenchmarkGetLog(b *testing.B) {
	l, err := Open(Config{Dir: b.TempDir(), Base: &sink{}})
	must(b, err)
	must(b, l.StoreLogs(commands(1, 1000, 1, 2<<10)))
	var entry raft.Log
	b.ReportAllocs()
	for i := uint64(0); b.Loop(); i++ {
		must(b, l.GetLog(1+i%1000, &entry))
	}
	must(b, l.Close())
}

// sink is a store that discards the entries. It keeps only the first and the last index.
type sink struct {
	raft.LogStore
	first, last uint64
}

func (s *sink) FirstIndex() (uint64, error) { return s.first, nil }
func (s *sink) LastIndex() (uint64, error)  { return s.last, nil }

func (s *sink) StoreLogs(entries []*raft.Log) error {
	s.first, s.last = max(s.first, 1), entries[len(entries)-1].Index
	return nil
}

func (s *sink) DeleteRange(_, hi uint64) error {
	s.first = hi + 1
	return nil
}
