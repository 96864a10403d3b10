package wal

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// command returns an entry with content derived from its index and term.
func command(index, term uint64, size int) *raft.Log {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(index + 3*term + uint64(i))
	}
	return &raft.Log{
		Index: index, Term: term, Type: raft.LogType(index % 6), Data: data,
		Extensions: fmt.Append(nil, "ext", index)[:index%5], AppendedAt: time.Unix(0, int64(1+index*1e9)),
	}
}

// commands returns the entries with the indexes from lo to hi.
func commands(lo, hi, term uint64, size int) (all []*raft.Log) {
	for i := lo; i <= hi; i++ {
		all = append(all, command(i, term, size))
	}
	return all
}

func same(a, b *raft.Log) bool {
	return a.Index == b.Index && a.Term == b.Term && a.Type == b.Type && string(a.Data) == string(b.Data) &&
		string(a.Extensions) == string(b.Extensions) && a.AppendedAt.Equal(b.AppendedAt)
}

// openBolt opens a bbolt store with the options used in production.
func openBolt(t testing.TB, dir string, sync bool) *raftboltdb.BoltStore {
	t.Helper()
	s, err := newBolt(dir, sync)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

func newBolt(dir string, sync bool) (*raftboltdb.BoltStore, error) {
	return raftboltdb.New(raftboltdb.Options{
		Path: filepath.Join(dir, "log.db"), NoSync: !sync,
		BoltOptions: &bbolt.Options{
			Timeout: 5 * time.Second, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType,
			NoGrowSync: !sync, InitialMmapSize: 256 << 20, NoStatistics: true,
		},
	})
}

// openLog opens a Log and closes it at the end of the test.
func openLog(t testing.TB, c Config) *Log {
	t.Helper()
	l, err := Open(c)
	must(t, err)
	t.Cleanup(func() {
		if err := l.Close(); err != nil && l.failed() == nil {
			t.Error(err)
		}
	})
	return l
}

// logFiles returns the paths of the log files in a directory.
func logFiles(t testing.TB, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, namePrefix+"*"))
	must(t, err)
	return paths
}

// oracle is the expected content of a log: entries by index.
type oracle map[uint64]*raft.Log

func (o oracle) store(entries []*raft.Log) {
	for _, entry := range entries {
		copied := *entry
		o[entry.Index] = &copied
	}
}

func (o oracle) remove(lo, hi uint64) {
	maps.DeleteFunc(o, func(index uint64, _ *raft.Log) bool { return lo <= index && index <= hi })
}

func (o oracle) list() []*raft.Log { return slices.Collect(maps.Values(o)) }

func (o oracle) bounds() (first, last uint64) {
	for index := range o {
		if first == 0 || index < first {
			first = index
		}
		last = max(last, index)
	}
	return first, last
}

// checkLog compares the content of a log with want.
func checkLog(t testing.TB, l raft.LogStore, want oracle) {
	t.Helper()
	if err := compare(l, want); err != nil {
		t.Fatal(err)
	}
}

// compare returns an error that describes the first difference between a log and want.
func compare(l raft.LogStore, want oracle) error {
	lo, hi := want.bounds()
	first, err := l.FirstIndex()
	if err != nil {
		return err
	}
	last, err := l.LastIndex()
	if err != nil {
		return err
	}
	if first != lo || last != hi {
		return fmt.Errorf("the log has entries %d to %d; want %d to %d", first, last, lo, hi)
	}
	for i := max(lo, 2) - 1; i <= hi+1; i++ {
		var got raft.Log
		switch err := l.GetLog(i, &got); {
		case want[i] == nil && errors.Is(err, raft.ErrLogNotFound):
		case want[i] == nil:
			return fmt.Errorf("GetLog(%d) returns %s; want raft.ErrLogNotFound", i, fmt.Sprint(err))
		case err != nil:
			return fmt.Errorf("entry %d: %w", i, err)
		case !same(&got, want[i]):
			return fmt.Errorf("entry %d is %+v; want %+v", i, got, *want[i])
		}
	}
	return nil
}
