package options

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/throttledhq/throttled/glob"
)

// Pair is an option's name and its value as text.
type Pair struct{ Name, Value string }

// SetError says why CONFIG SET refused an option. Its text is that of Redis, less the
// "ERR ".
type SetError struct {
	Name   string // the option, spelled as in the table
	Reason string
}

func (e *SetError) Error() string {
	return fmt.Sprintf("CONFIG SET failed (possibly related to argument '%s') - %s", e.Name, e.Reason)
}

// UnknownError says that CONFIG SET was given a name that no option has. Its text is
// that of Redis, less the "ERR ".
type UnknownError struct {
	Name string // as the client spelled it: any bytes, also those that end a line
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("Unknown option or number of arguments for CONFIG SET - '%s'", e.Name)
}

// Store holds the values in force. Its methods may be called from many goroutines.
type Store struct {
	current atomic.Pointer[Options]
	file    string   // absolute path of the configuration file; empty without one
	sources *sources // nil: those of New

	mu     sync.Mutex // held while values or the file change
	loaded Options    // the values of the sources when they were read last, or the file was rewritten
	logDir string     // of the log file at the start; "" if there was none
	hook   func(old, next *Options) error
}

// New returns a Store that holds o and belongs to no file, or the error of o.Validate.
// It is for programs that make their own settings, such as tests; [Load] is for the rest.
func New(o Options) (*Store, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return newStore(o, ""), nil
}

func newStore(o Options, file string) *Store {
	s := &Store{file: file, loaded: o, logDir: logDirectory(o.LogFile)}
	s.current.Store(&o)
	return s
}

// Get returns the values in force, which the caller must not change. They stay as they
// are: later changes are seen by calling Get again. It costs one atomic load.
func (s *Store) Get() *Options { return s.current.Load() }

// File returns the absolute path of the configuration file, or "" when there is none.
func (s *Store) File() string { return s.file }

// OnChange makes hook the one that is called before each change, in place of any
// earlier one. The hook may refuse with an error, and then nothing changes; what it
// returns is shown to the client. It must not call s.Set, s.Rewrite or s.OnChange.
func (s *Store) OnChange(hook func(old, next *Options) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

// Match returns the options whose names match one of patterns, in the order of the
// table and each of them once. Case does not matter. Secrets come with an empty value.
func (s *Store) Match(patterns ...string) []Pair {
	o := s.Get()
	var out []Pair
	for i := range table {
		r := &table[i]
		if slices.ContainsFunc(patterns, func(p string) bool { return glob.MatchFold(p, r.name) }) {
			out = append(out, Pair{r.name, r.public(o)})
		}
	}
	return out
}

// Set changes all the options in pairs, or none of them. It returns a [*SetError] or
// an [*UnknownError], for the same pair that Redis would blame: names are looked at
// before values, both from first to last.
func (s *Store) Set(pairs []Pair) error {
	rows, err := settable(pairs)
	if err != nil || len(rows) == 0 {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.current.Load()
	next := *old
	for i, r := range rows {
		if err := r.field(&next).Set(pairs[i].Value); err != nil {
			return &SetError{r.name, err.Error()}
		}
		if r.change == confined {
			if err := s.checkLogFile(pairs[i].Value); err != nil {
				return &SetError{r.name, err.Error()}
			}
		}
	}
	if c := next.conflict(); c != nil {
		return &SetError{c.blame(rows), c.reason}
	}
	if err := s.ask(old, &next, rows[0].name); err != nil {
		return err
	}
	s.current.Store(&next)
	return nil
}

// ask runs the hook. A refusal that does not say which option it is about is put down
// to first.
func (s *Store) ask(old, next *Options, first string) error {
	if s.hook == nil {
		return nil
	}
	err := s.hook(old, next)
	if err == nil {
		return nil
	}
	if named := (*SetError)(nil); errors.As(err, &named) {
		return named
	}
	return &SetError{first, err.Error()}
}

// settable returns the row of each pair, if CONFIG SET may change them all.
func settable(pairs []Pair) ([]*row, error) {
	rows := make([]*row, 0, len(pairs))
	for _, p := range pairs {
		r := find(p.Name)
		switch {
		case r == nil:
			return nil, &UnknownError{p.Name}
		case r.change == immutable:
			return nil, &SetError{r.name, "can't set immutable config"}
		case r.change == protected:
			return nil, &SetError{r.name, "can't set protected config"}
		case slices.Contains(rows, r):
			return nil, &SetError{r.name, "duplicate parameter"}
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// blame returns the name of the first of rows that is part of the conflict.
func (c *conflict) blame(rows []*row) string {
	for _, r := range rows {
		if slices.Contains(c.names[:], r.name) {
			return r.name
		}
	}
	return c.names[0]
}
