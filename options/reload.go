package options

import (
	"errors"
	"fmt"
)

// sources are where the values of a Store come from, besides Set.
type sources struct {
	path      string // of the configuration file; "" for none
	given     []Pair // by flags, in order
	lookupEnv func(string) (string, bool)
}

// read gathers the values, and returns the absolute path of the file.
func (s *sources) read() (o Options, file string, err error) {
	l := loader{options: Default(), origin: map[string]string{}}
	if file, err = l.readFile(s.path); err != nil {
		return o, "", err
	}
	if err := l.readEnv(s.lookupEnv); err != nil {
		return o, "", err
	}
	l.begin()
	for _, p := range s.given {
		if err := l.setLoose(find(p.Name), p.Value, fromFlag); err != nil {
			return o, "", err
		}
	}
	if c := l.options.conflict(); c != nil {
		return o, "", l.refuseConflict(c)
	}
	return l.options, file, nil
}

// Reloaded names the options whose value in the sources has changed.
type Reloaded struct {
	Changed []string // in force now
	Restart []string // in force after a restart
}

// Reload reads the sources of [Load] again. An option that is not the same in them as when they were
// read last, or rewritten, gets its new value, if it can change while the server runs. All others keep theirs, those
// included that Set has changed meanwhile: to send a signal for the log file only must not take back
// a password. Flags and environment go before the file, as they do at the start.
//
// The new values come into force together. An error changes nothing; it names the file and the line
// where one is at fault, or is that of the hook.
func (s *Store) Reload() (Reloaded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sources == nil {
		return Reloaded{}, nil
	}
	read, _, err := s.sources.read()
	if err == nil {
		err = read.CheckReplication()
	}
	if err != nil {
		return Reloaded{}, err
	}
	old := s.current.Load()
	next := *old
	list, err := merge(&next, &s.loaded, &read)
	if err != nil {
		return Reloaded{}, err
	}
	if c := next.conflict(); c != nil {
		return Reloaded{}, fmt.Errorf("%s, with the values in force: %s", s.file, c.reason)
	}
	if s.hook != nil {
		if err := s.hook(old, &next); err != nil {
			return Reloaded{}, fmt.Errorf("%s: %w", s.file, plain(err))
		}
	}
	s.current.Store(&next)
	s.loaded = read
	return list, nil
}

// noteSources reads the sources after the file was rewritten: lines that Rewrite has changed are not news to
// Reload. Sources with a mistake change nothing, as Reload refuses them. s.mu is held.
func (s *Store) noteSources() {
	if s.sources == nil {
		return
	}
	if read, _, err := s.sources.read(); err == nil {
		s.loaded = read
	}
}

// merge gives next the values that differ between before and after, and can change.
func merge(next, before, after *Options) (list Reloaded, err error) {
	for i := range table {
		r := &table[i]
		text := r.get(after)
		switch {
		case text == r.get(before):
		case r.reloads():
			if err := r.field(next).Set(text); err != nil {
				return list, fmt.Errorf("%s: %w", r.name, err)
			}
			list.Changed = append(list.Changed, r.name)
		default:
			list.Restart = append(list.Restart, r.name)
		}
	}
	return list, nil
}

// plain returns the reason of a hook without the words of CONFIG SET.
func plain(err error) error {
	if named := (*SetError)(nil); errors.As(err, &named) {
		return fmt.Errorf("%s: %s", named.Name, named.Reason)
	}
	return err
}

// reloads reports whether an option can change while the server runs.
func (r *row) reloads() bool { return r.change == live || r.change == confined }
