package raftstore

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/hashicorp/raft"
)

func TestLogs_RoundTrip(t *testing.T) {
	s := openStore(t, Config{Dir: t.TempDir()})
	for name, l := range map[string]raft.LogStore{"wal": s.Logs(), "database": s.logs} {
		if err := l.GetLog(1, new(raft.Log)); !errors.Is(err, raft.ErrLogNotFound) {
			t.Errorf("%s: GetLog(1) of an empty log returns %v; want raft.ErrLogNotFound", name, err)
		}
	}
	must(t, s.logs.StoreLog(command(1, 50)))
	must(t, s.logs.StoreLogs(commands(2, 2000, 50)))
	checkLog(t, s.logs, 1, 2000, 50)
}

// TestLogs_Extensions checks that existing Extensions are preserved and that entries of
// the caller are not modified.
func TestLogs_Extensions(t *testing.T) {
	s := openStore(t, Config{Dir: t.TempDir()})
	entry := command(1, 10)
	entry.Extensions = append(make([]byte, 0, 100), "extension"...)
	before := fmt.Sprintf("%q %q", entry.Extensions, entry.Extensions[:20])
	must(t, s.logs.StoreLog(entry))
	var got raft.Log
	got.Extensions = []byte("left from the entry before")
	must(t, s.logs.GetLog(1, &got))
	if string(got.Extensions) != "extension" {
		t.Errorf("the extensions are %q; want \"extension\"", got.Extensions)
	}
	if after := fmt.Sprintf("%q %q", entry.Extensions, entry.Extensions[:20]); after != before {
		t.Errorf("the extensions of the caller's entry were %s before StoreLog, and are %s after it; want no change", before, after)
	}
}

// TestLogs_Sealed modifies each part of a stored entry. The checksum must detect the change.
func TestLogs_Sealed(t *testing.T) {
	for what, change := range map[string]func(*raft.Log){
		"index":                 func(l *raft.Log) { l.Index++ },
		"term":                  func(l *raft.Log) { l.Term++ },
		"type":                  func(l *raft.Log) { l.Type = raft.LogNoop },
		"data":                  func(l *raft.Log) { l.Data[3] ^= 1 },
		"shorter data":          func(l *raft.Log) { l.Data = l.Data[1:] },
		"extension":             func(l *raft.Log) { l.Extensions[0] ^= 1 },
		"checksum":              func(l *raft.Log) { l.Extensions[len(l.Extensions)-1] ^= 1 },
		"no checksum":           func(l *raft.Log) { l.Extensions = nil },
		"half a checksum":       func(l *raft.Log) { l.Extensions = l.Extensions[:2] },
		"data in the extension": func(l *raft.Log) { l.Extensions = append(l.Data[9:10:10], l.Extensions...); l.Data = l.Data[:9] },
	} {
		entry := command(7, 10)
		entry.Extensions = []byte("x")
		stored := sealed([]*raft.Log{entry})[0]
		stored.Data = slices.Clone(stored.Data)
		change(stored)
		if err := unseal(7, stored); !errors.Is(err, ErrDamaged) {
			t.Errorf("changed: %s; unseal returns %v; want ErrDamaged", what, err)
		}
	}
}

// TestLogs_Damaged checks that Fatal is called when a corrupt entry is read.
func TestLogs_Damaged(t *testing.T) {
	f := newFaulty()
	var reported error
	s := guardedStore(f, func(err error) { reported = err })
	must(t, s.logs.StoreLogs(commands(1, 3, 10)))
	stored := new(raft.Log)
	must(t, f.InmemStore.GetLog(2, stored))
	stored.Data[0]++ // changes the stored entry, since the in-memory store does not copy the data
	must(t, s.logs.GetLog(1, new(raft.Log)))
	if err := s.logs.GetLog(2, new(raft.Log)); !errors.Is(err, ErrPoisoned) || !errors.Is(reported, ErrDamaged) {
		t.Errorf("GetLog returns %v, and Fatal is called with %v; want ErrPoisoned and ErrDamaged", err, reported)
	}
}

// TestLogs_DeleteRange deletes ranges at the old and at the new end of the log.
func TestLogs_DeleteRange(t *testing.T) {
	const n = 3*deleteChunk + 10
	for _, c := range []struct{ lo, hi, first, last uint64 }{
		{1, 1, 2, n},
		{1, deleteChunk, deleteChunk + 1, n},
		{1, 2*deleteChunk + 5, 2*deleteChunk + 6, n},
		{1, n, 0, 0},
		{0, n + 1000, 0, 0},
		{n, n, 1, n - 1},
		{5, n, 1, 4},
		{n - deleteChunk, n, 1, n - deleteChunk - 1},
		{100, 1 << 60, 1, 99},
		{n + 1, n + 5, 1, n},
		{9, 8, 1, n},
	} {
		s := openStore(t, Config{Dir: t.TempDir()})
		must(t, s.Logs().StoreLogs(commands(1, n, 10)))
		must(t, s.Logs().DeleteRange(c.lo, c.hi))
		checkLog(t, s.Logs(), c.first, c.last, 10)
		must(t, s.Close())
	}
}

// TestLogs_DeleteRangeOfGaps deletes from a log with a gap, as left by installing a
// snapshot.
func TestLogs_DeleteRangeOfGaps(t *testing.T) {
	s := openStore(t, Config{Dir: t.TempDir()})
	must(t, s.Logs().StoreLogs(commands(1, 10, 10)))
	must(t, s.Logs().StoreLogs(commands(1<<40, 1<<40+10, 10)))
	must(t, s.Logs().DeleteRange(1, 1<<40))
	checkLog(t, s.Logs(), 1<<40+1, 1<<40+10, 10)
	must(t, s.Logs().StoreLogs(commands(1<<41, 1<<41+10, 10)))
	must(t, s.Logs().DeleteRange(1<<40+5, 1<<41+10))
	checkLog(t, s.Logs(), 1<<40+1, 1<<40+4, 10)
	must(t, s.Logs().DeleteRange(1<<40+2, 1<<40+3)) // the middle, which raft does not request
	if err := s.Logs().GetLog(1<<40+2, new(raft.Log)); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("GetLog of a deleted entry in the middle returns %v; want raft.ErrLogNotFound", err)
	}
}

// TestLogs_DeleteRangeLeavesNoGap interrupts a deletion after each chunk. The remaining entries must
// have no gap.
func TestLogs_DeleteRangeLeavesNoGap(t *testing.T) {
	const n = 4 * deleteChunk
	for name, r := range map[string][2]uint64{"old end": {1, n - 5}, "new end": {5, n}} {
		for steps := range 4 {
			f := newFaulty()
			s := guardedStore(f, func(error) {})
			must(t, s.logs.StoreLogs(commands(1, n, 10)))
			left := steps
			f.before = func(op string) error {
				if op == "DeleteRange" {
					if left--; left < 0 {
						return errDisk
					}
				}
				return nil
			}
			if err := s.logs.DeleteRange(r[0], r[1]); !errors.Is(err, errDisk) {
				t.Errorf("%s: interrupted after %d chunks: DeleteRange returns %v; want errDisk", name, steps, err)
			}
			first, _ := f.InmemStore.FirstIndex()
			last, _ := f.InmemStore.LastIndex()
			for i := first; i <= last; i++ {
				if err := f.InmemStore.GetLog(i, new(raft.Log)); err != nil {
					t.Fatalf("%s: interrupted after %d chunks: the log has entries %d to %d without entry %d", name, steps, first, last, i)
				}
			}
			if int(last-first+1) != n-steps*deleteChunk || r[0] == 1 && last != n || r[0] != 1 && first != 1 {
				t.Errorf("%s: interrupted after %d chunks: the log has entries %d to %d; want only these chunks deleted", name, steps, first, last)
			}
		}
	}
}
