package persistence

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/throttledhq/throttled/limiter"
)

// memory is a State that is held in a map.
type memory struct {
	mu      sync.Mutex
	now     uint64
	records map[string]limiter.Record
	changes int64
	room    int // maximum number of records; 0 means no limit
	clears  int
	// visited is called before each record is yielded.
	visited func()
}

func newMemory(keys int) *memory {
	m := &memory{now: 1000, records: map[string]limiter.Record{}}
	for i := range keys {
		m.set(fmt.Sprint("key:", i), uint64(5000+i))
	}
	return m
}

// set stores a record and counts a change, as a decision does.
func (m *memory) set(key string, expires uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records[key] = limiter.Record{Kind: limiter.Throttle, Key: []byte(key), Expires: expires}
	m.changes++
}

func (m *memory) Now() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

func (m *memory) Records() iter.Seq[limiter.Record] {
	return func(yield func(limiter.Record) bool) {
		m.mu.Lock()
		keys := slices.Sorted(maps.Keys(m.records))
		m.mu.Unlock()
		for _, key := range keys {
			if m.visited != nil {
				m.visited()
			}
			m.mu.Lock()
			r, ok := m.records[key]
			m.mu.Unlock()
			if ok && !yield(r) {
				return
			}
		}
	}
}

func (m *memory) Put(r limiter.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.room > 0 && len(m.records) >= m.room {
		return limiter.ErrOutOfMemory
	}
	r.Key, r.State = bytes.Clone(r.Key), bytes.Clone(r.State)
	m.records[string(r.Key)] = r
	m.changes++
	return nil
}

func (m *memory) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.records)
	m.clears++
}

func (m *memory) Usage() limiter.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return limiter.Usage{Keys: int64(len(m.records)), Changes: m.changes}
}

// expiries returns the expiry time of each key in m.
func (m *memory) expiries() map[string]uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	got := map[string]uint64{}
	for key, r := range m.records {
		got[key] = r.Expires
	}
	return got
}

func sameContent(t testing.TB, what string, got, want *memory) {
	t.Helper()
	if g, w := got.expiries(), want.expiries(); !maps.Equal(g, w) {
		t.Fatalf("%s has %d records with the expiry times %v; want %d with %v", what, len(g), g, len(w), w)
	}
}

// newStore opens a Store and closes it at the end of the test.
func newStore(t testing.TB, c Config) *Store {
	t.Helper()
	if c.Name == "" {
		c.Name = "dump.thr"
	}
	s, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// loadedStore returns a Store that has been loaded and can save.
func loadedStore(t testing.TB, c Config, state State) *Store {
	t.Helper()
	s := newStore(t, c)
	if err := s.Load(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	return s
}
