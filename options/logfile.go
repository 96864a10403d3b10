package options

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// logBegins is what the first line of a log begins with.
const logBegins = "time="

var errLogFile = errors.New("a client can choose a file in the working directory or beside the configured logfile only: " +
	"for others, change the configuration file and send SIGHUP")

// checkLogFile returns why a client may not choose a file for the log: one that can write anywhere could
// spoil other files of the machine. So the file is in the directory of the log file that the sources
// name or named at the start, or in the working directory, is new, empty or a log already, and has the name of no other file of the
// server. "" is always allowed. s.mu is held.
func (s *Store) checkLogFile(path string) error {
	if path == "" {
		return nil
	}
	allowed := []string{s.logDir, logDirectory(s.loaded.LogFile), logDirectory("x")}
	if dir := logDirectory(path); dir == "" || !slices.Contains(allowed, dir) {
		return errLogFile
	}
	if s.isTaken(path) {
		return fmt.Errorf("the server keeps another file as %s: choose a new name", path)
	}
	return checkIsLog(path)
}

// isTaken reports whether a file is the configuration file, a snapshot, or one that an option names which no
// client may change. It may not exist yet: a log in its place would be taken for it later.
func (s *Store) isTaken(path string) bool {
	at, o := resolved(path), s.Get()
	if target, err := filepath.EvalSymlinks(s.file); at == resolved(s.file) || err == nil && at == target {
		return true
	}
	for i := range table {
		if r := &table[i]; r.change == protected && at == resolved(r.get(o)) {
			return true
		}
	}
	return strings.HasPrefix(at, resolved(o.DBFilename)+".") // the previous snapshot, and those that are being written
}

// resolved returns the absolute path of a file, in a directory without symbolic links; "" if that does not exist.
func resolved(path string) string {
	dir := logDirectory(path)
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, filepath.Base(path))
}

// logDirectory returns the directory of a file, without symbolic links; "" if it has none.
func logDirectory(path string) string {
	if path == "" {
		return ""
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return ""
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return ""
	}
	return dir
}

func checkIsLog(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it is only read
	begin := make([]byte, len(logBegins))
	n, err := io.ReadFull(f, begin)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if n > 0 && string(begin[:n]) != logBegins {
		return fmt.Errorf("%s is there, and is no log: choose a new name", path)
	}
	return nil
}
