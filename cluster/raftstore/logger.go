package raftstore

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/throttledhq/throttled/internal/lograte"
)

// linesPerSecond is the maximum number of lines per second with the same text.
const linesPerSecond = 2

// Logger returns a logger for raft that writes its lines to the given slog.Logger. Lines about elections, leadership,
// members and failures have the level info or warning, see eventLevels. All other lines are debug lines, which most
// configurations discard. Errors that make a node unusable are passed to Config.Fatal. At most 2 lines per second with
// the same text are written. The number of dropped lines is logged on a separate line, before the first line that is
// logged after that second.
func Logger(log *slog.Logger) hclog.Logger {
	return &logger{log: log, limit: lograte.New(linesPerSecond, time.Second)}
}

// logger implements hclog.Logger.
type logger struct {
	log   *slog.Logger
	limit *lograte.Limiter
	name  string
	args  []any // arguments of With
}

// highestLevel returns the highest level at which a line of the library can be logged.
func highestLevel(level hclog.Level) slog.Level {
	switch level {
	case hclog.Error, hclog.Warn:
		return slog.LevelWarn
	case hclog.Info, hclog.NoLevel:
		return slog.LevelInfo
	default:
		return slog.LevelDebug
	}
}

// Log writes a line, unless its level is disabled or the limit of lines with this text is reached.
func (l *logger) Log(level hclog.Level, text string, args ...any) {
	at := lineLevel(level, text)
	if level == hclog.Off || !l.log.Enabled(context.Background(), at) {
		return
	}
	now := time.Now()
	for _, m := range l.limit.TakeMissed(now) {
		l.log.Warn("raft: dropped lines of the same text", "text", m.Text, "lines", m.Lines)
	}
	if _, ok := l.limit.Allow(text, now); ok {
		l.log.Log(context.Background(), at, "raft: "+l.name+text, formatted(l.args, args)...)
	}
}

// formatted returns the arguments in the form that slog expects.
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
	return level != hclog.Off && l.log.Enabled(context.Background(), highestLevel(level))
}

// Trace logs a line at level trace.
func (l *logger) Trace(text string, args ...any) { l.Log(hclog.Trace, text, args...) }

// Debug logs a line at level debug.
func (l *logger) Debug(text string, args ...any) { l.Log(hclog.Debug, text, args...) }

// Info logs a line at level info.
func (l *logger) Info(text string, args ...any) { l.Log(hclog.Info, text, args...) }

// Warn logs a line at level warn.
func (l *logger) Warn(text string, args ...any) { l.Log(hclog.Warn, text, args...) }

// Error logs a line at level error.
func (l *logger) Error(text string, args ...any) { l.Log(hclog.Error, text, args...) }

// IsTrace reports whether trace lines are written.
func (l *logger) IsTrace() bool { return l.enabled(hclog.Trace) }

// IsDebug reports whether debug lines are written.
func (l *logger) IsDebug() bool { return l.enabled(hclog.Debug) }

// IsInfo reports whether info lines are written.
func (l *logger) IsInfo() bool { return l.enabled(hclog.Info) }

// IsWarn reports whether warnings are written.
func (l *logger) IsWarn() bool { return l.enabled(hclog.Warn) }

// IsError reports whether errors are written.
func (l *logger) IsError() bool { return l.enabled(hclog.Error) }

// ImpliedArgs returns the arguments added by With.
func (l *logger) ImpliedArgs() []any { return l.args }

// With returns a logger that adds args to each line.
func (l *logger) With(args ...any) hclog.Logger {
	child := *l
	child.args = append(l.args[:len(l.args):len(l.args)], args...)
	return &child
}

// Name returns the prefix set by Named or ResetNamed.
func (l *logger) Name() string { return l.name }

// Named returns a logger that adds name to the prefix of each text.
func (l *logger) Named(name string) hclog.Logger { return l.ResetNamed(l.name + name + ": ") }

// ResetNamed returns a logger with name as the prefix of each text.
func (l *logger) ResetNamed(name string) hclog.Logger {
	child := *l
	child.name = name
	return &child
}

// SetLevel does nothing: the slog.Logger controls the level.
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

// StandardLogger returns a logger of package log that writes info lines.
func (l *logger) StandardLogger(o *hclog.StandardLoggerOptions) *log.Logger {
	return log.New(l.StandardWriter(o), "", 0)
}

// StandardWriter returns a writer that logs each write as an info line of the library.
func (l *logger) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return lineWriter{l} }

type lineWriter struct{ l *logger }

func (w lineWriter) Write(line []byte) (int, error) {
	w.l.Info(string(bytes.TrimSpace(line)))
	return len(line), nil
}
