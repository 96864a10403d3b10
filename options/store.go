package options

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/throttledhq/throttled/internal/glob"
)

// Pair is an option's name and its value as text.
type Pair struct{ Name, Value string }

// SetError is the error of a CONFIG SET that is refused because of an option. Its text is
// the error of Redis, without the prefix "ERR ".
type SetError struct {
	Name   string // name of the option, as in the table
	Reason string
}

// Error returns the text of the reply of Redis to a failed CONFIG SET.
func (e *SetError) Error() string {
	return fmt.Sprintf("CONFIG SET failed (possibly related to argument '%s') - %s", e.Name, e.Reason)
}

// UnknownError is the error of a CONFIG SET of an unknown option. Its text is the error of
// Redis, without the prefix "ERR ".
type UnknownError struct {
	Name string // as sent by the client: arbitrary bytes, including line ends
}

// Error returns the text of the reply of Redis to a CONFIG SET of an unknown option.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("Unknown option or number of arguments for CONFIG SET - '%s'", e.Name)
}

// Store holds the current values. Its methods are safe for concurrent use.
type Store struct {
	current atomic.Pointer[Options]
	file    string   // absolute path of the configuration file; "" if there is none
	sources *sources // nil for a Store made by New

	mu     sync.Mutex // held while values or the file change
	loaded Options    // the values of the sources as of the last read, or the last rewrite of the file
	logDir string     // directory of the log file at startup; "" if there was none
	hook   func(old, next *Options) error
}

// New returns a Store that holds o and has no configuration file. It returns the error of
// o.Validate, or of reading the file of requirepass-file. It is for programs that construct their settings, such as tests; other
// programs use [Load].
func New(o Options) (*Store, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if err := o.readPassword(o.Dir); err != nil {
		return nil, err
	}
	return newStore(o, "", o.Dir), nil
}

// newStore returns a Store. Relative paths in o are below dir.
func newStore(o Options, file, dir string) *Store {
	s := &Store{file: file, loaded: o}
	if o.LogFile != "" {
		s.logDir = logDirectory(under(dir, o.LogFile))
	}
	s.current.Store(&o)
	return s
}

// Get returns the current values. The caller must not modify them. The result is a snapshot:
// call Get again to see later changes. It costs one atomic load.
func (s *Store) Get() *Options { return s.current.Load() }

// File returns the absolute path of the configuration file, or "" if there is none.
func (s *Store) File() string { return s.file }

// OnChange sets the hook, a function that Set and Reload call before each change. It replaces any earlier hook. If the
// hook returns an error, nothing changes, and Set or Reload returns an error with the same reason. The hook must not
// call s.Set, s.Reload, s.Rewrite or s.OnChange.
func (s *Store) OnChange(hook func(old, next *Options) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

// Match returns the options whose names match any of patterns, ignoring case. Each option
// is returned once, in the order of the table. Secrets have an empty value.
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

// Set changes all options in pairs, or none of them. The error is a [*SetError] or an
// [*UnknownError]. The error names the same option as in Redis: Set first checks all names in the order of
// pairs, and then all values in the same order.
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
		return &SetError{c.firstOf(rows), c.reason}
	}
	if err := s.runHook(old, &next, rows[0].name); err != nil {
		return err
	}
	s.current.Store(&next)
	return nil
}

// runHook runs the hook. If the error of the hook is not a [*SetError], runHook returns a
// SetError with the same text, for the option named by the parameter first.
func (s *Store) runHook(old, next *Options, first string) error {
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

// settable returns the row of each pair, or an error if CONFIG SET may not change one of them.
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

// firstOf returns the name of the first row that is part of the conflict. If no row is part
// of the conflict, it returns the first option of the conflict.
func (c *conflict) firstOf(rows []*row) string {
	for _, r := range rows {
		if slices.Contains(c.names[:], r.name) {
			return r.name
		}
	}
	return c.names[0]
}
