package options

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// logBegins is what the first line of a log begins with.
const logBegins = "time="

var errLogFile = errors.New("a client can choose a file in the working directory or beside the configured logfile only: " +
	"for others, change the configuration file and send SIGHUP")

// checkLogFile returns why a client may not choose a file for the log: one that can write anywhere could
// spoil other files of the machine. So the file is in the directory of the log file that the sources
// name, or in the working directory, and is new, empty or a log already. "" is always allowed.
func checkLogFile(path string, loaded *Options) error {
	if path == "" {
		return nil
	}
	allowed := []string{logDirectory(loaded.LogFile), logDirectory("x")}
	if dir := logDirectory(path); dir == "" || !slices.Contains(allowed, dir) {
		return errLogFile
	}
	return checkIsLog(path)
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
