package options

import (
	"errors"
	"fmt"
)

// sources are the inputs of Load, kept for Reload.
type sources struct {
	path      string // of the configuration file; "" for none
	dir       string // absolute path of the option dir at the start, below which relative paths are
	flags     []Pair // in order
	lookupEnv func(string) (string, bool)
}

// read reads the sources and returns their values and the absolute path of the file.
func (s *sources) read() (o Options, file string, err error) {
	l := loader{options: Default(), origin: map[string]string{}}
	if file, err = l.readFile(s.path); err != nil {
		return o, "", err
	}
	if err := l.readEnv(s.lookupEnv); err != nil {
		return o, "", err
	}
	l.begin()
	for _, p := range s.flags {
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
	Changed []string // applied
	Restart []string // take effect after a restart
}

// Reload reads the sources of [Load] again. Reload changes an option if its value in the
// sources has changed since they were last read or rewritten, and if the option can change
// while the server runs. All other options keep their values, including values changed by
// Set. For example, a reload after a rotation of the log file must not revert a password
// that was changed by Set. The file named by requirepass-file is read again too. Flags and environment override the file,
// as in Load.
//
// The new values take effect together. If Reload returns an error, nothing has changed. For
// an invalid line, the error contains the file and the line. If the hook set by OnChange
// fails, the error contains the error of the hook.
//
// On a Store made by [New], Reload does nothing.
func (s *Store) Reload() (Reloaded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sources == nil {
		return Reloaded{}, nil
	}
	read, _, err := s.sources.read()
	if err == nil {
		err = errors.Join(read.readPassword(s.sources.dir), read.CheckReplication(), read.CheckTLS(), read.CheckUpstream())
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
	if old.RequirePassFile == read.RequirePassFile && old.filePassword != read.filePassword {
		next.filePassword = read.filePassword
		list.Changed = append(list.Changed, passwordFile)
	}
	if c := next.conflict(); c != nil {
		return Reloaded{}, fmt.Errorf("%s, combined with the current values: %s", s.file, c.reason)
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

// noteSources reads the sources after a rewrite of the file, so that Reload does not treat
// the lines changed by Rewrite as new. It ignores errors, since the next Reload reports
// them. The caller holds s.mu.
func (s *Store) noteSources() {
	if s.sources == nil {
		return
	}
	if read, _, err := s.sources.read(); err == nil {
		s.loaded = read
	}
}

// merge compares the values in the parameters before and after. If the values of an option differ, and the option can
// change while the server runs, merge copies the value in after to the parameter next. It returns the names of all
// options whose values differ.
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

// plain returns the error of a hook. It replaces the text of a SetError, which refers to
// CONFIG SET, with the name of the option and the reason.
func plain(err error) error {
	if named := (*SetError)(nil); errors.As(err, &named) {
		return fmt.Errorf("%s: %s", named.Name, named.Reason)
	}
	return err
}

// reloads reports whether an option can change while the server runs.
func (r *row) reloads() bool { return r.change == live || r.change == confined }
