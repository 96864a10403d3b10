package raftstore

import (
	"fmt"
	"testing"

	"github.com/hashicorp/raft"
)

// BenchmarkStoreLogs measures the cost of one StoreLogs call, for one entry and for 64 entries.
func BenchmarkStoreLogs(b *testing.B) {
	for _, sync := range []bool{false, true} {
		for _, n := range []uint64{1, 64} {
			b.Run(fmt.Sprintf("sync=%t/entries=%d", sync, n), func(b *testing.B) {
				s := openStore(b, Config{Dir: b.TempDir(), Sync: sync})
				data := command(1, 2<<10).Data
				next := uint64(0)
				b.ReportAllocs()
				for b.Loop() {
					entries := make([]*raft.Log, n)
					for i := range entries {
						next++
						entries[i] = &raft.Log{Index: next, Term: 1, Data: data}
					}
					must(b, s.Logs().StoreLogs(entries))
				}
			})
		}
	}
}

// BenchmarkGetLog measures the read of an entry in memory, and the read of an entry on disk.
func BenchmarkGetLog(b *testing.B) {
	const n = 512
	for _, where := range []string{"in memory", "on disk"} {
		b.Run(where, func(b *testing.B) {
			dir := b.TempDir()
			s := openStore(b, Config{Dir: dir})
			must(b, s.Logs().StoreLogs(commands(1, n, 2<<10)))
			if where == "on disk" {
				must(b, s.Close())
				s = openStore(b, Config{Dir: dir})
			}
			b.ReportAllocs()
			var entry raft.Log
			for i := uint64(0); b.Loop(); i++ {
				must(b, s.Logs().GetLog(1+i%n, &entry))
			}
		})
	}
}

// BenchmarkGuard measures the overhead of the latch and the watchdog per write.
func BenchmarkGuard(b *testing.B) {
	file := newGuarded("file", newLatch(func(error) {}))
	for b.Loop() {
		must(b, file.write("do nothing", func() error { return nil }))
	}
}

// BenchmarkOpen measures a start with a log of 100 000 entries, half of which are after
// the newest snapshot.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	const n = 100_000
	s := openStore(b, Config{Dir: dir})
	for i := uint64(1); i <= n; i += 1000 {
		must(b, s.Logs().StoreLogs(commands(i, i+999, 2<<10)))
	}
	snapshot(b, s, n/2, "state")
	must(b, s.Close())
	for name, f := range map[string]func(*Store) error{"open": func(*Store) error { return nil }, "open and check": (*Store).Check} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s, err := Open(Config{Dir: dir, Fatal: func(err error) { b.Error(err) }})
				must(b, err)
				must(b, f(s))
				must(b, s.Close())
			}
		})
	}
}
