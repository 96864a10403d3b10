package raftstore

import (
	"bytes"
	"fmt"
	"log/slog"
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
	names := map[hclog.Level]string{hclog.Trace: "DEBUG", hclog.Debug: "DEBUG", hclog.Info: "INFO", hclog.Warn: "WARN", hclog.Error: "WARN"}
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError, slog.LevelError + 4} {
		for said, f := range say {
			l, b := capture(level)
			f(l)
			want := ""
			if name, ok := names[said]; ok && slogLevel(said) >= level {
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
	l.Info("plain")
	child.ResetNamed("other: ").Info("text")
	want := "level=WARN msg=\"raft: snapshot: text\" id=7 servers=\"3 of five\" !BADKEY=alone\n" +
		"level=INFO msg=\"raft: plain\"\n" +
		"level=INFO msg=\"raft: other: text\" id=7\n"
	if b.String() != want {
		t.Errorf("logged %s; want %s", b.String(), want)
	}
	if args := child.ImpliedArgs(); len(args) != 2 || child.Name() != "snapshot: " {
		t.Errorf("the name is %q, and the arguments are %v; want \"snapshot: \", and two arguments", child.Name(), args)
	}
	b.Reset()
	l.StandardLogger(nil).Println("from package log")
	if b.String() != "level=INFO msg=\"raft: from package log\"\n" {
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
			l.Info("rare")
		}
		<-time.After(time.Second)
		l.Info("the next line")
		text := b.String()
		for what, want := range map[string]int{"heartbeat to\" peer": 20, "raft: rejecting": 20, "raft: rare": 10, "dropped lines": 20, "lines=998": 20} {
			if got := strings.Count(text, what); got != want {
				t.Errorf("there are %d occurrences of the text %q in the log; want %d", got, what, want)
			}
		}
	})
}
