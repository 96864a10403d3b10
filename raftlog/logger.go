package raftlog

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

const (
	linesPerSecond = 2
	maxTexts       = 1000 // of which lines are counted; the library has some two hundred
)

// Logger returns a logger for raft that writes to log. Lines of level trace and debug are
// debug lines, which most configurations drop, and errors are warnings: to the library an error
// is mostly that another node is away, or that this one ends. What makes a node unusable is told
// by Config.Fatal. Of lines of the same text it passes on 2 per second; how many it left out is told in a
// line of its own, with the next line of any text in a later second.
func Logger(log *slog.Logger) hclog.Logger { return &logger{log: log, limit: &lineLimit{}} }

// logger has the methods of hclog.Logger.
type logger struct {
	log   *slog.Logger
	limit *lineLimit
	name  string
	args  []any // of With
}

// lineLimit counts the lines of the current second.
type lineLimit struct {
	mu    sync.Mutex
	until time.Time
	lines map[string]int // by text
}

// leftOut is how many lines of a text were not passed on.
type leftOut struct {
	text  string
	lines int
}

// admit reports whether to pass on a line, and what was left out in a second that is over.
func (l *lineLimit) admit(text string, now time.Time) (ok bool, missing []leftOut) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !now.Before(l.until) {
		for text, n := range l.lines {
			if n > linesPerSecond {
				missing = append(missing, leftOut{text, n - linesPerSecond})
			}
		}
		l.lines, l.until = map[string]int{}, now.Add(time.Second)
	}
	if _, known := l.lines[text]; !known && len(l.lines) >= maxTexts {
		text = "other lines"
	}
	l.lines[text]++
	return l.lines[text] <= linesPerSecond, missing
}

func slogLevel(level hclog.Level) slog.Level {
	switch level {
	case hclog.Error, hclog.Warn:
		return slog.LevelWarn
	case hclog.Info, hclog.NoLevel:
		return slog.LevelInfo
	default:
		return slog.LevelDebug
	}
}

// Log passes a line on, unless its level is off or there are too many like it.
func (l *logger) Log(level hclog.Level, text string, args ...any) {
	if !l.enabled(level) {
		return
	}
	ok, missing := l.limit.admit(text, time.Now())
	for _, m := range missing {
		l.log.Warn("raft: lines were left out", "text", m.text, "lines", m.lines)
	}
	if ok {
		l.log.Log(context.Background(), slogLevel(level), "raft: "+l.name+text, formatted(l.args, args)...)
	}
}

// formatted returns the arguments as slog takes them.
func formatted(lists ...[]any) []any {
	var all []any
	for _, list := range lists {
		for _, arg := range list {
			if f, ok := arg.(hclog.Format); ok && len(f) > 0 {
				format, _ := f[0].(string)
				arg = fmt.Sprintf(format, f[1:]...)
			}
			all = append(all, arg)
		}
	}
	return all
}

func (l *logger) enabled(level hclog.Level) bool {
	return level != hclog.Off && l.log.Enabled(context.Background(), slogLevel(level))
}

// Trace logs a line at the level of that name, as the next four do.
func (l *logger) Trace(text string, args ...any) { l.Log(hclog.Trace, text, args...) }

// Debug logs a line.
func (l *logger) Debug(text string, args ...any) { l.Log(hclog.Debug, text, args...) }

// Info logs a line.
func (l *logger) Info(text string, args ...any) { l.Log(hclog.Info, text, args...) }

// Warn logs a line.
func (l *logger) Warn(text string, args ...any) { l.Log(hclog.Warn, text, args...) }

// Error logs a line.
func (l *logger) Error(text string, args ...any) { l.Log(hclog.Error, text, args...) }

// IsTrace reports whether lines of that level are written, as the next four do.
func (l *logger) IsTrace() bool { return l.enabled(hclog.Trace) }

// IsDebug reports whether debug lines are written.
func (l *logger) IsDebug() bool { return l.enabled(hclog.Debug) }

// IsInfo reports whether info lines are written.
func (l *logger) IsInfo() bool { return l.enabled(hclog.Info) }

// IsWarn reports whether warnings are written.
func (l *logger) IsWarn() bool { return l.enabled(hclog.Warn) }

// IsError reports whether errors are written.
func (l *logger) IsError() bool { return l.enabled(hclog.Error) }

// ImpliedArgs returns what With was given.
func (l *logger) ImpliedArgs() []any { return l.args }

// With returns a logger that adds args to each line.
func (l *logger) With(args ...any) hclog.Logger {
	child := *l
	child.args = append(l.args[:len(l.args):len(l.args)], args...)
	return &child
}

// Name returns the names given so far.
func (l *logger) Name() string { return l.name }

// Named returns a logger that puts name before each text.
func (l *logger) Named(name string) hclog.Logger { return l.ResetNamed(l.name + name + ": ") }

// ResetNamed returns a logger that puts name before each text, and no other.
func (l *logger) ResetNamed(name string) hclog.Logger {
	child := *l
	child.name = name
	return &child
}

// SetLevel does nothing: the level is that of the slog.Logger.
func (l *logger) SetLevel(hclog.Level) {}

// GetLevel returns the lowest level that is written.
func (l *logger) GetLevel() hclog.Level {
	for level := hclog.Trace; level < hclog.Off; level++ {
		if l.enabled(level) {
			return level
		}
	}
	return hclog.Off
}

// StandardLogger returns a logger of package log whose lines become info lines.
func (l *logger) StandardLogger(o *hclog.StandardLoggerOptions) *log.Logger {
	return log.New(l.StandardWriter(o), "", 0)
}

// StandardWriter returns a writer of which each write becomes an info line.
func (l *logger) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return lineWriter{l} }

type lineWriter struct{ l *logger }

func (w lineWriter) Write(line []byte) (int, error) {
	w.l.Info(string(bytes.TrimSpace(line)))
	return len(line), nil
}
