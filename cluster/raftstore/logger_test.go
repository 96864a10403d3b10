package raftstore

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
)

// capture returns a logger of the given level and the buffer that it writes to.
func capture(level slog.Level) (hclog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	handler := slog.NewTextHandler(&b, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	return Logger(slog.New(handler)), &b
}

func TestLogger(t *testing.T) {
	say := map[hclog.Level]func(hclog.Logger){
		hclog.Trace: func(l hclog.Logger) { l.Trace("text", "key", 1) },
		hclog.Debug: func(l hclog.Logger) { l.Debug("text", "key", 1) },
		hclog.Info:  func(l hclog.Logger) { l.Info("text", "key", 1) },
		hclog.Warn:  func(l hclog.Logger) { l.Warn("text", "key", 1) },
		hclog.Error: func(l hclog.Logger) { l.Error("text", "key", 1) },
		hclog.Off:   func(l hclog.Logger) { l.Log(hclog.Off, "text", "key", 1) },
	}
	names := map[hclog.Level]string{hclog.Trace: "DEBUG", hclog.Debug: "DEBUG", hclog.Info: "DEBUG", hclog.Warn: "WARN", hclog.Error: "WARN"}
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError, slog.LevelError + 4} {
		for said, f := range say {
			l, b := capture(level)
			f(l)
			want := ""
			if name, ok := names[said]; ok && defaultLevel(said) >= level {
				want = fmt.Sprintf("level=%s msg=\"raft: text\" key=1\n", name)
			}
			if b.String() != want {
				t.Errorf("a line of level %v with a handler at level %v: logged %q; want %q", said, level, b.String(), want)
			}
		}
		l, _ := capture(level)
		for lowest, is := range map[slog.Level]bool{slog.LevelDebug: l.IsDebug() && l.IsTrace(), slog.LevelInfo: l.IsInfo(), slog.LevelWarn: l.IsWarn() && l.IsError()} {
			if is != (level <= lowest) {
				t.Errorf("handler at level %v: the Is methods for level %v return %t; want the opposite", level, lowest, is)
			}
		}
	}
}

func TestLogger_GetLevel(t *testing.T) {
	for level, want := range map[slog.Level]hclog.Level{
		slog.LevelDebug: hclog.Trace, slog.LevelInfo: hclog.Info, slog.LevelWarn: hclog.Warn, slog.LevelError: hclog.Off,
	} {
		l, _ := capture(level)
		l.SetLevel(hclog.Off) // has no effect
		if got := l.GetLevel(); got != want {
			t.Errorf("handler at level %v: GetLevel returns %v; want %v", level, got, want)
		}
	}
}

func TestLogger_Arguments(t *testing.T) {
	l, b := capture(slog.LevelInfo)
	child := l.Named("snapshot").With("id", 7)
	child.Warn("text", "servers", hclog.Fmt("%d of %s", 3, "five"), "alone")
	l.Warn("plain")
	child.ResetNamed("other: ").Warn("text")
	want := "level=WARN msg=\"raft: snapshot: text\" id=7 servers=\"3 of five\" !BADKEY=alone\n" +
		"level=WARN msg=\"raft: plain\"\n" +
		"level=WARN msg=\"raft: other: text\" id=7\n"
	if b.String() != want {
		t.Errorf("logged %s; want %s", b.String(), want)
	}
	if args := child.ImpliedArgs(); len(args) != 2 || child.Name() != "snapshot: " {
		t.Errorf("the name is %q, and the arguments are %v; want \"snapshot: \", and two arguments", child.Name(), args)
	}
	l, b = capture(slog.LevelDebug)
	l.StandardLogger(nil).Println("from package log")
	if b.String() != "level=DEBUG msg=\"raft: from package log\"\n" {
		t.Errorf("StandardLogger logs %q; want one info line", b.String())
	}
}

// TestLogger_Limit logs, for ten seconds, the lines that the library logs for an unreachable peer. At
// most two lines per second with the same text may be written, and the others must be counted.
func TestLogger_Limit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, b := capture(slog.LevelInfo)
		for range 10 {
			for range 1000 {
				l.Error("failed to heartbeat to", "peer", "127.0.0.1:1")
				l.With("peer", 5).Warn("rejecting")
				<-time.After(time.Millisecond)
			}
			l.Warn("rare")
		}
		<-time.After(time.Second)
		l.Warn("the next line")
		text := b.String()
		for what, want := range map[string]int{"heartbeat to\" peer": 20, "raft: rejecting": 20, "raft: rare": 10, "dropped lines": 20, "lines=998": 20} {
			if got := strings.Count(text, what); got != want {
				t.Errorf("there are %d occurrences of the text %q in the log; want %d", got, what, want)
			}
		}
	})
}

// TestLogger_Events checks the levels of lines that do not have the default level, and that each line of eventLevels is a
// line of the library.
func TestLogger_Events(t *testing.T) {
	for text, want := range map[string]string{
		"election won": "INFO", "pipelining replication": "DEBUG", "compacting logs": "DEBUG",
		"appendEntries rejected, sending older logs": "DEBUG", "failed to heartbeat to": "WARN",
	} {
		l, b := capture(slog.LevelDebug)
		switch {
		case want == "WARN" || text == "appendEntries rejected, sending older logs":
			l.Warn(text)
		default:
			l.Info(text)
		}
		if !strings.HasPrefix(b.String(), "level="+want+" ") {
			t.Errorf("%q is logged as %s; want level %s", text, b, want)
		}
	}
	source := librarySource(t)
	for text := range eventLevels {
		if !strings.Contains(source, `("`+text+`"`) {
			t.Errorf("the library does not log %q: remove it from eventLevels, or adopt its new text", text)
		}
	}
}

// librarySource returns the source of the library.
func librarySource(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/hashicorp/raft").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the library has %d files, error %v", len(files), err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
