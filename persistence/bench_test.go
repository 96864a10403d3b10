package persistence

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"iter"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// many is a State with n records that are generated at negligible cost. Put only
// counts its calls.
type many struct {
	n   int
	put int
}

func (*many) Now() uint64 { return 1 }

func (m *many) Records() iter.Seq[limiter.Record] {
	return func(yield func(limiter.Record) bool) {
		key := []byte("user:00000000000")
		for i := range m.n {
			binary.BigEndian.PutUint64(key[8:], uint64(i))
			if !yield(limiter.Record{Kind: limiter.Throttle, Key: key, Expires: 1 << 60}) {
				return
			}
		}
	}
}

func (m *many) Put(limiter.Record) error { m.put++; return nil }
func (m *many) Reset()                   { m.put = 0 }
func (m *many) Usage() limiter.Usage     { return limiter.Usage{Keys: int64(m.n)} }

const benchRecords = 1_000_000

func noTick(int64, int64) error { return nil }

func perRecord(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRecords, "ns/record")
}

func BenchmarkWrite(b *testing.B) {
	b.ReportAllocs()
	src := &many{n: benchRecords}
	for b.Loop() {
		w := writer{dst: io.Discard, blockSize: defaultBlock, tick: noTick}
		info, err := w.write(Info{}, src)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(info.Size)
	}
	perRecord(b)
}

func BenchmarkRead(b *testing.B) {
	b.ReportAllocs()
	var file bytes.Buffer
	w := writer{dst: &file, blockSize: defaultBlock, tick: noTick}
	if _, err := w.write(Info{}, &many{n: benchRecords}); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(file.Len()))
	for b.Loop() {
		r := reader{src: bytes.NewReader(file.Bytes()), tick: noTick}
		n := 0
		if r.header() {
			for range r.records() {
				n++
			}
		}
		if !r.done || n != benchRecords {
			b.Fatal(n, r.err)
		}
	}
	perRecord(b)
}

// BenchmarkSave includes the disk: writing, fsync and verification.
func BenchmarkSave(b *testing.B) {
	s := loadedStore(b, Config{Dir: b.TempDir(), Name: "dump.thr"}, &many{n: benchRecords})
	for b.Loop() {
		if err := s.Save(); err != nil {
			b.Fatal(err)
		}
	}
	perRecord(b)
}

func BenchmarkLoad(b *testing.B) {
	dir := b.TempDir()
	s := loadedStore(b, Config{Dir: dir, Name: "dump.thr"}, &many{n: benchRecords})
	if err := s.Save(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		into := &many{}
		if err := s.Load(context.Background(), into); err != nil || into.put != benchRecords {
			b.Fatal(into.put, err)
		}
	}
	perRecord(b)
}

// TestAllocations checks that the number of allocations of a load or save does not grow with
// the number of records.
func TestAllocations(t *testing.T) {
	dir := t.TempDir()
	state := &many{n: 200_000}
	s := loadedStore(t, Config{Dir: dir, Name: "dump.thr"}, state)
	f := func(what string, run func() error) {
		t.Helper()
		n := testing.AllocsPerRun(1, func() {
			if err := run(); err != nil {
				t.Fatal(err)
			}
		})
		if n > 400 {
			t.Errorf("%s of %d records makes %v allocations, want at most 400", what, state.n, n)
		}
	}
	f("a save", s.Save)
	f("a load", func() error { return s.Load(t.Context(), state) })
	if state.put != 2*state.n { // AllocsPerRun makes one extra call
		t.Errorf("Put was called for %d records, want %d", state.put, 2*state.n)
	}
}

// processorTime returns the processor time that this process has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// TestSpeed checks that a save and a load together take at most 10 s of processor time. This is far more than the
// benchmarks measure, so the test fails only if performance degrades by an order of magnitude. Other programs on the machine
// have little effect on it.
func TestSpeed(t *testing.T) {
	state := &many{n: benchRecords}
	s := loadedStore(t, Config{Dir: t.TempDir(), Name: "dump.thr"}, state)
	begun := processorTime(t)
	if err := s.Save(); err != nil {
		t.Fatal(err)
	}
	if err := s.Load(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	if d := processorTime(t) - begun; d > 10*time.Second {
		t.Errorf("saving and loading %d records took %v of processor time, want at most 10 s", state.n, d)
	}
	if info, err := os.Stat(filepath.Join(s.dir, "dump.thr")); err != nil || info.Size() > 28*benchRecords {
		t.Errorf("the file has %d bytes, error %v; want at most 28 bytes per record", info.Size(), err)
	}
}
