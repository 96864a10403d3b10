package main

import (
	"fmt"
	"io"
	"log/slog"
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

// logHandler returns the handler that writes lines in a format, "text" or "json". The values are the same in both formats.
func logHandler(w io.Writer, format string, level slog.Leveler) slog.Handler {
	if format != "json" {
		return slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})
	}
	return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: asInText})
}

// asInText returns an attribute that has the same value in JSON as in text: the result of its method String, such as "1.5s" of a
// duration. In JSON, package slog would write a number of nanoseconds, an object with the fields of an address, and an empty
// object for a node of package raft.
func asInText(_ []string, a slog.Attr) slog.Attr {
	if v, ok := a.Value.Any().(fmt.Stringer); ok && a.Value.Kind() != slog.KindTime {
		a.Value = slog.StringValue(v.String())
	}
	return a
}

// open directs the log to the file at path, or to standard error if path is empty. The file is created if it does not
// exist. If open fails, the destination does not change. If path is the current path, the file is opened again, as
// required after log rotation.
func (l *logOutput) open(path string) error {
	var file *os.File
	if path != "" {
		var err error
		if file, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil { // #nosec G304 G703 -- the operator chooses the path
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
