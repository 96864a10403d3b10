package main

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"
)

// stringer is a type without exported fields, like the nodes of package raft.
type stringer struct{}

func (stringer) String() string { return "text" }

// TestLogHandler writes a line in both formats. The values must be the same.
func TestLogHandler(t *testing.T) {
	for format, want := range map[string]string{
		"text": ` level=WARN msg="a \"line\"" error=failed after=1.5s addr=192.0.2.1:80 node=text list=[a] n=7` + "\n",
		"json": `,"level":"WARN","msg":"a \"line\"","error":"failed","after":"1.5s","addr":"192.0.2.1:80","node":"text","list":["a"],"n":7}` + "\n",
	} {
		var b strings.Builder
		slog.New(logHandler(&b, format, slog.LevelInfo)).Warn(`a "line"`, "error", errors.New("failed"), "after", 1500*time.Millisecond,
			"addr", &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80}, "node", stringer{}, "list", []string{"a"}, "n", 7)
		if !strings.HasSuffix(b.String(), want) {
			t.Errorf("format %s: %s, want ...%s", format, &b, want)
		}
	}
}

// TestLogFormat_Failure starts the program with options that are wrong, and with an address that cannot be bound. With log-format
// json, standard error must contain the reason as a line of JSON, and nothing else.
func TestLogFormat_Failure(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, f := range []struct {
		option, value string
		code          int
		reason        string
	}{{"--tls-port", "1", exitUsage, "require tls-cert-file"}, {"--bind", "192.0.2.1", exitError, "option bind: "}} {
		var errs strings.Builder
		code := serve(t.Context(), []string{f.option, f.value, "--log-format", "json"}, nil, io.Discard, &errs)
		var line struct{ Level, Error string }
		if err := json.Unmarshal([]byte(errs.String()), &line); err != nil || code != f.code || line.Level != "ERROR" || !strings.Contains(line.Error, f.reason) {
			t.Errorf("%s %s: code %d, error %v, and on standard error %s; want %d, and the reason in JSON", f.option, f.value, code, err, errs.String(), f.code)
		}
	}
}

// TestProcess_LogFormat runs a server with log-format json. Each line must be an object with a time, a level and a message. The
// level can be changed while the server runs.
func TestProcess_LogFormat(t *testing.T) {
	p := newServer(t, "--log-format", "json", "--data-dir", t.TempDir())
	p.waitLog(`"msg":"ready"`)
	if strings.Contains(p.log.String(), `"DEBUG"`) {
		t.Errorf("debug lines at loglevel notice:\n%s", p.log)
	}
	p.askUntil("OK", "CONFIG", "SET", "loglevel", "debug")
	p.askUntil("OK", "SAVE")
	p.waitLog(`"level":"DEBUG","msg":"raft: `)
	p.kill()
	for line := range strings.Lines(p.log.String()) {
		var fields struct {
			Time       time.Time
			Level, Msg string
		}
		if err := json.Unmarshal([]byte(line), &fields); err != nil || fields.Time.IsZero() || fields.Level == "" || fields.Msg == "" {
			t.Errorf("%s: %+v, error %v; want an object with time, level and msg", line, fields, err)
		}
	}
}
