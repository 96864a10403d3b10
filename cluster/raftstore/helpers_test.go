package raftstore

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// patience is a generous timeout for short operations on a busy machine.
const patience = time.Minute

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// command returns an entry with the given index, and with size bytes of data derived from the index.
func command(index uint64, size int) *raft.Log {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(index + uint64(i))
	}
	return &raft.Log{Index: index, Term: 1 + index/100, Type: raft.LogCommand, Data: data}
}

// commands returns the entries with the indexes from lo to hi.
func commands(lo, hi uint64, size int) (all []*raft.Log) {
	for i := lo; i <= hi; i++ {
		all = append(all, command(i, size))
	}
	return all
}

// openStore opens a Store and closes it at the end of the test. A call of Fatal fails the test.
// Unless c.Limit is set, the limit is far above the time that an operation takes on a busy machine.
func openStore(t testing.TB, c Config) *Store {
	t.Helper()
	if c.Limit == 0 {
		c.Limit = patience
	}
	if c.Fatal == nil {
		c.Fatal = func(err error) { t.Errorf("Fatal is called with %v; want no call", err) }
	}
	s, err := Open(c)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// claimed returns a directory that a node has claimed, with a log of n entries and a vote.
func claimed(t testing.TB, n uint64) string {
	t.Helper()
	dir := t.TempDir()
	s := openStore(t, Config{Dir: dir})
	_, _, err := s.Claim("cluster", "node")
	must(t, err)
	must(t, s.Logs().StoreLogs(commands(1, n, 100)))
	must(t, s.Stable().SetUint64([]byte("CurrentTerm"), 7))
	must(t, s.Stable().SetUint64([]byte("LastVoteTerm"), 7))
	must(t, s.Stable().Set([]byte("LastVoteCand"), []byte("other node")))
	must(t, s.Close())
	return dir
}

// inCurrent returns the path of a file in the directory of the files in use, dir/current.
func inCurrent(dir string, names ...string) string {
	return filepath.Join(append([]string{dir, currentName}, names...)...)
}

// snapshot writes a snapshot that ends at index, and returns its ID.
func snapshot(t testing.TB, s *Store, index uint64, content string) string {
	t.Helper()
	_, transport := raft.NewInmemTransport("")
	sink, err := s.Snapshots().Create(1, index, 1+index/100, raft.Configuration{Servers: threeServers}, 1, transport)
	must(t, err)
	_, err = sink.Write([]byte(content))
	must(t, err)
	must(t, sink.Close())
	return sink.ID()
}

var threeServers = []raft.Server{
	{Suffrage: raft.Voter, ID: "a", Address: "127.0.0.1:1"},
	{Suffrage: raft.Voter, ID: "b", Address: "127.0.0.1:2"},
	{Suffrage: raft.Nonvoter, ID: "c", Address: "127.0.0.1:3"},
}

// checkLog checks that the log has exactly the entries from lo to hi, as returned by
// command.
func checkLog(t testing.TB, l raft.LogStore, lo, hi uint64, size int) {
	t.Helper()
	first, err := l.FirstIndex()
	must(t, err)
	last, err := l.LastIndex()
	must(t, err)
	if first != lo || last != hi {
		t.Errorf("the log has entries %d to %d; want %d to %d", first, last, lo, hi)
	}
	for i := max(lo, 1); i <= hi; i++ {
		var got raft.Log
		if err := l.GetLog(i, &got); err != nil {
			t.Fatalf("GetLog(%d) returns the error %v; want nil", i, err)
		}
		want := command(i, size)
		same := got.Index == want.Index && got.Term == want.Term && got.Type == want.Type && len(got.Extensions) == 0
		if !same || !bytes.Equal(got.Data, want.Data) {
			t.Fatalf("entry %d is %+v; want %+v", i, got, *want)
		}
	}
}

var errDisk = errors.New("input/output error")

// faulty is an in-memory log and stable store. At the start of each operation, it calls
// faulty.before with the name of the operation. faulty.before may block, or return an error.
type faulty struct {
	*raft.InmemStore
	before func(op string) error
	mu     sync.Mutex
	ops    []string
}

func newFaulty() *faulty { return &faulty{InmemStore: raft.NewInmemStore()} }

func (f *faulty) op(name string) error {
	f.mu.Lock()
	f.ops = append(f.ops, name)
	f.mu.Unlock()
	if f.before == nil {
		return nil
	}
	return f.before(name)
}

// list returns the operations that have been called.
func (f *faulty) list() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.ops)
}

func (f *faulty) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ops = nil
}

func (f *faulty) StoreLogs(logs []*raft.Log) error {
	if err := f.op("StoreLogs"); err != nil {
		return err
	}
	return f.InmemStore.StoreLogs(logs)
}

func (f *faulty) GetLog(index uint64, log *raft.Log) error {
	if err := f.op("GetLog"); err != nil {
		return err
	}
	return f.InmemStore.GetLog(index, log)
}

func (f *faulty) DeleteRange(lo, hi uint64) error {
	if err := f.op("DeleteRange"); err != nil {
		return err
	}
	return f.InmemStore.DeleteRange(lo, hi)
}

func (f *faulty) FirstIndex() (uint64, error) {
	if err := f.op("FirstIndex"); err != nil {
		return 0, err
	}
	return f.InmemStore.FirstIndex()
}

func (f *faulty) LastIndex() (uint64, error) {
	if err := f.op("LastIndex"); err != nil {
		return 0, err
	}
	return f.InmemStore.LastIndex()
}

func (f *faulty) Set(key, value []byte) error {
	if err := f.op("Set"); err != nil {
		return err
	}
	return f.InmemStore.Set(key, value)
}

func (f *faulty) Get(key []byte) ([]byte, error) {
	if err := f.op("Get"); err != nil {
		return nil, err
	}
	value, err := f.InmemStore.Get(key)
	if err != nil {
		return nil, errKeyNotFound
	}
	return value, nil
}
