package main

import (
	"fmt"
	"io"
	"os"
	"sync"
)

// logOutput is the destination of the log: a file, which can be replaced at any time, or standard error.
type logOutput struct {
	stderr io.Writer

	mu   sync.Mutex
	file *os.File // nil for stderr
}

// Write implements io.Writer.
func (l *logOutput) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return l.stderr.Write(p)
	}
	return l.file.Write(p)
}

// open directs the log to the file at path, or to standard error if path is empty. The file is created if it does not
// exist. If open fails, the destination does not change. If path is the current path, the file is opened again, as
// required after log rotation.
func (l *logOutput) open(path string) error {
	var file *os.File
	if path != "" {
		var err error
		if file, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			return fmt.Errorf("open logfile: %w", err)
		}
	}
	_ = l.replace(file).Close() // an error from closing the old file does not affect the new file
	return nil
}

// replace directs the log to file and returns the previous file. A nil file means standard error.
func (l *logOutput) replace(file *os.File) (old *os.File) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old, l.file = l.file, file
	return old
}

// toFile reports whether the log is written to a file.
func (l *logOutput) toFile() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file != nil
}

// Close closes the file. Later log lines are written to standard error.
func (l *logOutput) Close() error {
	old := l.replace(nil)
	if old == nil {
		return nil
	}
	return old.Close()
}
