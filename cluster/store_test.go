package cluster

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// disk is the disk of a simulated node: log, stable store and snapshots. When a process stops, the next process gets a
// copy, so later writes by the old process are lost. A write in progress may or may not be in the copy.
type disk struct {
	mu          sync.Mutex
	first, last uint64
	logs        map[uint64]*raft.Log
	stable      map[string][]byte
	numbers     map[string]uint64
	snapshots   []*memSnapshot // complete snapshots, newest first

	slow   func() time.Duration // returns the duration of a write; nil means 0
	stored func(*raft.Log)      // called with each entry; optional
	saved  func(index uint64)   // called with each snapshot; optional
}

func newDisk() *disk {
	return &disk{logs: map[uint64]*raft.Log{}, stable: map[string][]byte{}, numbers: map[string]uint64{}}
}

// copy returns the disk of the next process.
func (d *disk) copy() *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &disk{
		first: d.first, last: d.last, logs: maps.Clone(d.logs), stable: maps.Clone(d.stable), numbers: maps.Clone(d.numbers),
		snapshots: slices.Clone(d.snapshots), slow: d.slow, stored: d.stored,
	}
}

// write performs a write, which takes some time.
func (d *disk) write(f func()) {
	var before, after time.Duration
	if d.slow != nil {
		if before = d.slow(); rand.IntN(2) == 0 {
			before, after = 0, before
		}
	}
	pass(before)
	d.mu.Lock()
	f()
	d.mu.Unlock()
	pass(after)
}

// pass blocks for d.
func pass(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

func (d *disk) FirstIndex() (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.first, nil
}

func (d *disk) LastIndex() (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last, nil
}

func (d *disk) GetLog(index uint64, log *raft.Log) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	l, found := d.logs[index]
	if !found {
		return raft.ErrLogNotFound
	}
	*log = *l
	return nil
}

func (d *disk) StoreLog(log *raft.Log) error { return d.StoreLogs([]*raft.Log{log}) }

func (d *disk) StoreLogs(logs []*raft.Log) error {
	d.write(func() {
		for _, l := range logs {
			kept := *l
			d.logs[l.Index] = &kept
			if d.first == 0 {
				d.first = l.Index
			}
			d.last = max(d.last, l.Index)
			if d.stored != nil {
				d.stored(&kept)
			}
		}
	})
	return nil
}

func (d *disk) DeleteRange(from, to uint64) error {
	d.write(func() {
		for i := from; i <= to; i++ {
			delete(d.logs, i)
		}
		if from <= d.first {
			d.first = to + 1
		}
		if to >= d.last {
			d.last = from - 1
		}
		if d.first > d.last {
			d.first, d.last = 0, 0
		}
	})
	return nil
}

func (d *disk) Set(key, value []byte) error {
	d.write(func() { d.stable[string(key)] = bytes.Clone(value) })
	return nil
}

func (d *disk) Get(key []byte) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v, found := d.stable[string(key)]; found {
		return v, nil
	}
	return nil, errors.New("not found")
}

func (d *disk) SetUint64(key []byte, value uint64) error {
	d.write(func() { d.numbers[string(key)] = value })
	return nil
}

func (d *disk) GetUint64(key []byte) (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.numbers[string(key)], nil
}

// memSnapshot is a snapshot in memory. It is listed after it is closed.
type memSnapshot struct {
	disk *disk
	meta raft.SnapshotMeta
	bytes.Buffer
	done bool
}

func (d *disk) Create(version raft.SnapshotVersion, index, term uint64, c raft.Configuration, ci uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	id := fmt.Sprintf("%d-%d-%d", term, index, rand.Uint64())
	return &memSnapshot{disk: d, meta: raft.SnapshotMeta{
		Version: version, ID: id, Index: index, Term: term, Configuration: c, ConfigurationIndex: ci,
	}}, nil
}

func (d *disk) List() (list []*raft.SnapshotMeta, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.snapshots {
		meta := s.meta
		list = append(list, &meta)
	}
	return list, nil
}

func (d *disk) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.snapshots {
		if s.meta.ID == id {
			meta := s.meta
			return &meta, io.NopCloser(bytes.NewReader(s.Bytes())), nil
		}
	}
	return nil, nil, errors.New("no such snapshot")
}

func (s *memSnapshot) ID() string { return s.meta.ID }

func (s *memSnapshot) Cancel() error { return nil }

func (s *memSnapshot) Close() error {
	if saved := s.disk.saved; saved != nil {
		saved(s.meta.Index)
	}
	s.disk.write(func() {
		if s.done {
			return
		}
		s.done, s.meta.Size = true, int64(s.Len())
		s.disk.snapshots = append([]*memSnapshot{s}, s.disk.snapshots...)
		slices.SortStableFunc(s.disk.snapshots, func(a, b *memSnapshot) int { return cmp.Compare(b.meta.Index, a.meta.Index) })
		s.disk.snapshots = s.disk.snapshots[:min(2, len(s.disk.snapshots))]
	})
	return nil
}
