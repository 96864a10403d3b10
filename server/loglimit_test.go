package server

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/internal/lograte"
)

// TestLogLimited checks that at most linesPerSecond lines of one kind are logged in a second, and that the next line of
// that kind contains the number of dropped lines.
func TestLogLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &Server{log: slog.New(slog.NewTextHandler(&log, nil)), logged: lograte.New(linesPerSecond, time.Second)}
		for range linesPerSecond + 3 {
			s.debug("kind", "off") // debug lines are disabled, and are not counted
			s.warn("kind", "text", "client", 7)
			s.info("other kind", "other")
		}
		if n := strings.Count(log.String(), "msg=text client=7\n"); n != linesPerSecond {
			t.Errorf("%d lines are logged, want %d", n, linesPerSecond)
		}
		log.Reset()
		<-time.After(time.Second)
		s.warn("kind", "text")
		s.warn("kind", "text")
		if got := log.String(); strings.Count(got, "msg=text") != 2 || strings.Count(got, "dropped_lines=3") != 1 || strings.Contains(got, "off") {
			t.Errorf("the log is %s, want two lines, one of which counts 3 dropped lines", got)
		}
	})
}

// TestLogLimited_Allocations checks that logLimited does not allocate when it drops a line.
func TestLogLimited_Allocations(t *testing.T) {
	s := &Server{log: slog.New(slog.NewTextHandler(io.Discard, nil)), logged: lograte.New(linesPerSecond, time.Hour)}
	for range linesPerSecond {
		s.logLimited(slog.LevelWarn, "kind", "text", nil)
	}
	if got := testing.AllocsPerRun(100, func() { s.logLimited(slog.LevelWarn, "kind", "text", nil) }); got > 0 {
		t.Errorf("logLimited makes %v allocations, want 0", got)
	}
}
