package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"sync"

	"github.com/hashicorp/raft"
)

var errDisk = errors.New("input/output error")

// machine is an in-memory file system with a base store. Each operation on a file or on the base
// store is a step, and the power can fail between any two steps. Synced data survives a power
// failure. Of the unsynced data of a file, a random prefix survives, with random sectors replaced by
// zeros.
type machine struct {
	mu      sync.Mutex
	names   map[string]*memFile // by path: the files that the process sees
	durable map[string]*memFile // by path: the files whose directory entries are synced
	base    oracle              // the entries in the base store; each call is durable or has no effect
	steps   int
	fail    func(step int, what string) bool // reports whether the step fails; a failed write is partial
	cut     bool                             // the power has failed: all later steps fail
	ops     []string
	blocked chan struct{} // if not nil, Base.StoreLogs blocks until it is closed
}

type memFile struct {
	m      *machine
	path   string
	data   []byte
	synced int
}

func newMachine() *machine {
	return &machine{names: map[string]*memFile{}, durable: map[string]*memFile{}, base: oracle{}}
}

// step records a step. It returns errDisk if the power has failed or if m.fail selects the step.
func (m *machine) step(what string) error {
	m.steps++
	m.ops = append(m.ops, what)
	if m.cut || m.fail != nil && m.fail(m.steps, what) {
		return errDisk
	}
	return nil
}

// powerCut makes the step with the given number and all later steps fail.
func (m *machine) powerCut(at int) {
	m.fail = func(step int, _ string) bool {
		m.cut = m.cut || step >= at
		return m.cut
	}
}

// restart returns the machine as it is after a crash of the process or, if power is true, after a
// power failure.
func (m *machine) restart(power bool, r *rand.Rand) *machine {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := newMachine()
	next.base = m.base
	keep := func(path string, f *memFile) {
		n := len(f.data)
		if power {
			n = f.synced + r.IntN(n-f.synced+1)
		}
		data := append([]byte(nil), f.data[:n]...)
		for at := f.synced; power && at < n; at += sector {
			if r.IntN(3) == 0 {
				clear(data[at:min(at+sector, n)])
			}
		}
		next.names[path] = &memFile{next, path, data, n}
		next.durable[path] = next.names[path]
	}
	for path, f := range m.names {
		if !power || m.durable[path] == f || r.IntN(2) == 0 {
			keep(path, f)
		}
	}
	for path, f := range m.durable {
		if power && m.names[path] == nil && r.IntN(2) == 0 {
			keep(path, f)
		}
	}
	return next
}

func (m *machine) Names(string) (names []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for path := range m.names {
		names = append(names, filepath.Base(path))
	}
	return names, m.step("names")
}

func (m *machine) ReadFile(path string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step("read"); err != nil {
		return nil, err
	}
	return append([]byte(nil), m.names[path].data...), nil
}

func (m *machine) Create(path string) (file, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step("create"); err != nil {
		return nil, err
	}
	m.names[path] = &memFile{m: m, path: path}
	return m.names[path], nil
}

func (m *machine) Remove(path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step("remove"); err != nil {
		return err
	}
	if m.names[path] == nil {
		return fs.ErrNotExist
	}
	delete(m.names, path)
	return nil
}

func (m *machine) SyncDir(string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step("sync names"); err != nil {
		return err
	}
	m.durable = map[string]*memFile{}
	for path, f := range m.names {
		m.durable[path] = f
	}
	return nil
}

func (f *memFile) Write(b []byte) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.m.cut {
		return 0, errDisk
	}
	if err := f.m.step("write"); err != nil {
		f.data = append(f.data, b[:len(b)/2]...)
		return len(b) / 2, err
	}
	f.data = append(f.data, b...)
	return len(b), nil
}

func (f *memFile) Sync() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.m.step("sync"); err != nil {
		return err
	}
	f.synced = len(f.data)
	return nil
}

func (f *memFile) Close() error { return nil }

// baseStore is the base store of a machine.
type baseStore struct{ *machine }

func (b baseStore) bounds() (first, last uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.base.bounds()
}

func (b baseStore) FirstIndex() (uint64, error) {
	first, _ := b.bounds()
	return first, nil
}

func (b baseStore) LastIndex() (uint64, error) {
	_, last := b.bounds()
	return last, nil
}

func (b baseStore) GetLog(index uint64, entry *raft.Log) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.base[index]
	if found == nil {
		return raft.ErrLogNotFound
	}
	*entry = *found
	return nil
}

func (b baseStore) StoreLog(entry *raft.Log) error { return b.StoreLogs([]*raft.Log{entry}) }

func (b baseStore) StoreLogs(entries []*raft.Log) error {
	if b.blocked != nil {
		<-b.blocked
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.step(fmt.Sprintf("store %d-%d", entries[0].Index, entries[len(entries)-1].Index)); err != nil {
		return err
	}
	b.base.store(entries)
	return nil
}

func (b baseStore) DeleteRange(lo, hi uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.step(fmt.Sprintf("delete %d-%d", lo, hi)); err != nil {
		return err
	}
	b.base.remove(lo, hi)
	return nil
}

// config returns the Config of a Log on a machine.
func (m *machine) config() Config {
	return Config{Dir: "dir", Base: baseStore{m}, Sync: true, MaxEntries: 8, files: m}
}
