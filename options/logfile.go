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

// logBegins lists the starts of the first line of every log that the server writes, by log-format.
var logBegins = []string{"time=", `{"time":`}

var errLogFile = errors.New("a client can set logfile only to a file in the working directory or in the directory of the configured logfile: " +
	"for another directory, change the configuration file and send SIGHUP")

// checkLogFile returns an error if a client may not set the log file to path. It prevents
// clients from appending to arbitrary files of the machine. The file must be in one of
// three directories: the working directory, the directory of the log file at startup, or
// the directory of the log file that the sources specified when they were last read. The
// file must be new, empty or a log, and must not be another file of the server. An empty
// path is always allowed. The caller holds s.mu.
func (s *Store) checkLogFile(path string) error {
	if path == "" {
		return nil
	}
	allowed := []string{s.logDir, logDirectory(s.loaded.LogFile), logDirectory("x")}
	if dir := logDirectory(path); dir == "" || !slices.Contains(allowed, dir) {
		return errLogFile
	}
	if s.isTaken(path) {
		return fmt.Errorf("%s is another file of the server: choose a new name", path)
	}
	return checkIsLog(path)
}

// isTaken reports whether path is the path of the configuration file, of a snapshot, or of a file or directory named by
// a protected option. The other file need not exist: if the log were created at the path of a missing snapshot, for
// example, the server would later read the log as a snapshot.
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
	return strings.HasPrefix(at, resolved(o.DBFilename)+".") // the previous snapshot and temporary files
}

// resolved returns the absolute path of a file with the symbolic links of its directory
// resolved. It returns "" if the directory does not exist. The last element is not resolved.
func resolved(path string) string {
	dir := logDirectory(path)
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, filepath.Base(path))
}

// logDirectory returns the absolute directory of a file with symbolic links resolved.
// It returns "" if path is empty or the directory does not exist.
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
	f, err := os.Open(path) // #nosec G304 -- the operator chooses the path
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // opened for reading only
	begin := make([]byte, 8)         // as long as the longest of logBegins
	n, err := io.ReadFull(f, begin)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	isLog := func(start string) bool { return strings.HasPrefix(string(begin[:n]), start) }
	if n > 0 && !slices.ContainsFunc(logBegins, isLog) {
		return fmt.Errorf("%s exists and is not a log: choose a new name", path)
	}
	return nil
}
