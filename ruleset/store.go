package ruleset

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/throttledhq/throttled/rules"
	"github.com/throttledhq/throttled/ruleset/counts"
)

// Active is the set with which requests are decided.
type Active struct {
	Version uint64     // number of the version; 0 if there are no rules
	Set     *rules.Set // nil if there are no rules, or if Err is not nil
	// Err is the reason why this program cannot compile the version: an earlier version of the program, or a damaged
	// text. No earlier set is used instead.
	Err error
	// Counts has the counters of decisions on the limits of Set, by their numbers in Set. It is nil if Set is nil.
	Counts *counts.Resolved
}

// Store holds the active set and the history. Its methods may be called concurrently. Create it with NewStore.
type Store struct {
	active atomic.Pointer[Active]

	compiling sync.Mutex    // held while CompileNewest compiles a set
	computing chan struct{} // has an element while a large text of a proposal is patched or compiled
	inCompile atomic.Int64  // size of the texts that are being compiled, in bytes

	mu       sync.Mutex // guards the fields below, and the order of changes of active
	history  history
	older    digests   // of the texts that are no longer in the history
	prepared *Prepared // version whose compiled set is kept for Activate; nil if none

	changed chan struct{}
	file    atomic.Pointer[RulesFile]
	counts  *counts.Table
}

// NewStore returns a store without rules.
func NewStore() *Store {
	s := &Store{changed: make(chan struct{}, 1), computing: make(chan struct{}, 1), counts: counts.NewTable()}
	s.active.Store(&Active{})
	s.file.Store(&RulesFile{})
	return s
}

// Active returns the active set. It never returns nil.
func (s *Store) Active() *Active { return s.active.Load() }

// Counts returns the counters of decisions by limit. They are those of this process, and are not stored.
func (s *Store) Counts() *counts.Table { return s.counts }

// publish makes a set the active one. The caller must hold s.mu.
func (s *Store) publish(a *Active) {
	if a.Set != nil {
		a.Counts = s.counts.Resolve(func(yield func(counts.Name) bool) {
			for domain, limit := range a.Set.Limits() {
				if !yield(counts.Name{Domain: domain, Limit: limit}) {
					return
				}
			}
		})
	}
	s.active.Store(a)
}

// Changed returns a channel that receives a value if CompileNewest must be called.
func (s *Store) Changed() <-chan struct{} { return s.changed }

// Activate adds a version to the history, and reports whether it did. It returns false, and changes nothing, if the
// number of the version is not the next one: another version was added since the version was prepared.
//
// If the version was prepared by this Store, its set is the active one when Activate returns. Otherwise the active set
// does not change before CompileNewest is called, because compiling takes too long for the caller.
func (s *Store) Activate(v Version, packed []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.Number != s.history.newest().Number+1 {
		return false
	}
	if excess := len(s.history) + 1 - maxVersions; excess > 0 {
		s.older = s.older.add(s.history[:excess])
	}
	s.history = s.history.add(record{v, packed})
	p := s.prepared
	s.prepared = nil
	if p != nil && p.Version.Hash == v.Hash {
		s.publish(&Active{Version: v.Number, Set: p.set})
		return true
	}
	s.signal()
	return true
}

// Adopt replaces the history by a version of another store, under its number there. The version must be the one that was
// prepared last. Adopt reports whether it is, and otherwise changes nothing.
func (s *Store) Adopt(v Version, packed []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.prepared
	s.prepared = nil
	if p == nil || p.Version.Hash != v.Hash {
		return false
	}
	s.history = history{record{v, packed}}
	s.publish(&Active{Version: v.Number, Set: p.set})
	return true
}

// RulesFile is the state of the rules file of a server.
type RulesFile struct {
	Hash    string // of the text; "" if there is no file, or if it cannot be read
	Problem error  // that must be corrected; nil if there is none
}

// File returns the state of the rules file of this server.
func (s *Store) File() RulesFile { return *s.file.Load() }

// SetFile sets the state of the rules file of this server.
func (s *Store) SetFile(f RulesFile) { s.file.Store(&f) }

// FileVersion returns the number of the newest version whose text the rules file has, or 0 if no version in the history has
// it.
func (s *Store) FileVersion() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.history.withHash(s.File().Hash); r != nil {
		return r.Number
	}
	return 0
}

// signal makes Changed receive a value.
func (s *Store) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// CompileNewest compiles the newest version and makes it the active one, unless it is already. Versions between the
// active one and the newest one are not compiled.
func (s *Store) CompileNewest() {
	s.compiling.Lock()
	defer s.compiling.Unlock()
	for {
		newest := s.newest()
		if newest.Number == s.Active().Version {
			return
		}
		set, err := newest.compile(s)
		s.activateIfNewest(&Active{Version: newest.Number, Set: set, Err: err})
	}
}

// compile compiles a version from its compressed text.
func (r *record) compile(s *Store) (*rules.Set, error) {
	text, err := unpack(r.packed, &r.Version)
	if err != nil {
		return nil, err
	}
	set, err := s.compileInBackground("rules", text)
	if err != nil {
		return nil, fmt.Errorf("this program cannot use version %d of the rules, run the same program on all nodes: %w", r.Number, err)
	}
	return set, nil
}

// activateIfNewest makes a set the active one if its version is the newest one.
func (s *Store) activateIfNewest(a *Active) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.history.newest().Number == a.Version {
		s.publish(a)
	}
}

func (s *Store) newest() record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.history.newest()
}

// Newest returns the newest version, or a zero Version if there are no rules. Until CompileNewest has returned, the
// active set can be of an earlier version.
func (s *Store) Newest() Version { return s.newest().Version }

// Has reports whether the history has exactly the given version.
func (s *Store) Has(v Version) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.history.find(v.Number)
	return r != nil && r.Version == v
}

// History returns the versions, the newest first.
func (s *Store) History() []Version {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Version, 0, len(s.history))
	for i := len(s.history) - 1; i >= 0; i-- {
		list = append(list, s.history[i].Version)
	}
	return list
}

// Text returns the version with a number, and its text. Number 0 is the newest version. The error wraps ErrNoRules,
// ErrVersion, ErrNoText or ErrDamaged.
func (s *Store) Text(number uint64) (Version, string, error) {
	r, err := s.find(number)
	switch {
	case err != nil:
		return Version{}, "", err
	case r.packed == nil:
		return r.Version, "", fmt.Errorf("version %d: %w", number, ErrNoText)
	}
	text, err := unpack(r.packed, &r.Version)
	return r.Version, text, err
}

func (s *Store) find(number uint64) (record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.history) == 0 {
		return record{}, ErrNoRules
	}
	if number == 0 {
		return s.history.newest(), nil
	}
	if r := s.history.find(number); r != nil {
		return *r, nil
	}
	return record{}, fmt.Errorf("version %d: %w", number, ErrVersion)
}
