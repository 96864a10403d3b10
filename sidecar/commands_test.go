package sidecar

import (
	"bufio"
	"context"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestReadReply reads each type of reply, and refuses malformed ones.
func TestReadReply(t *testing.T) {
	for text, want := range map[string]any{
		"+OK\r\n":                          "OK",
		"-ERR no\r\n":                      replyError("ERR no"),
		":-17\r\n":                         int64(-17),
		"$3\r\na\r\n\r\n":                  "a\r\n",
		"$0\r\n\r\n":                       "",
		"$-1\r\n":                          nil,
		"*-1\r\n":                          nil,
		"*0\r\n":                           []any{},
		"*2\r\n:1\r\n*1\r\n$1\r\nk\r\n":    []any{int64(1), []any{"k"}},
		"*1\r\n*1\r\n*1\r\n:1\r\n":         []any{[]any{[]any{int64(1)}}},
		":1\n":                             errFormat,
		":x\r\n":                           errFormat,
		"$-2\r\n":                          errFormat,
		"$1\r\nab\r\n":                     errFormat,
		"$99999999999\r\n":                 errFormat,
		"*1025\r\n":                        errFormat,
		"*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n":   errFormat,
		"%1\r\n":                           errFormat,
		"GET / HTTP/1.1\r\n":               errFormat,
		"$3\r\nab":                         nil, // incomplete
		strings.Repeat("+", 5000) + "\r\n": nil, // longer than the buffer
	} {
		got, err := readReply(bufio.NewReader(strings.NewReader(text)), maxDepth)
		switch {
		case want == errFormat:
			if err != errFormat {
				t.Errorf("%.40q: got %v and the error %v, want %v", text, got, err, errFormat)
			}
		case text == "$3\r\nab" || strings.HasPrefix(text, "+++"):
			if err == nil {
				t.Errorf("%.40q: got %v, want an error", text, got)
			}
		case err != nil || !reflect.DeepEqual(got, want):
			t.Errorf("%.40q: got %v and the error %v, want %v", text, got, err, want)
		}
	}
}

// FuzzReadReply checks that no bytes of an upstream cause a panic.
func FuzzReadReply(f *testing.F) {
	for _, seed := range []string{"+OK\r\n", "*2\r\n:1\r\n$1\r\nk\r\n", "$-1\r\n", "*1\r\n*1\r\n*1\r\n*1\r\n", "$9999999\r\nx"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = readReply(bufio.NewReader(strings.NewReader(string(b))), maxDepth)
	})
}

// TestCommands_Do sends commands over connections that are used again, and not after a failure.
func TestCommands_Do(t *testing.T) {
	n := newNode(t)
	u := run(t, Config{Addresses: []string{n.addr()}, Timeout: time.Second})
	u.await(t, n.addr())
	c := &Commands{Upstream: u}
	defer c.Close()
	for range 3 {
		replies, err := c.Do(t.Context(), [][]string{{"EXISTS", "a"}, {"EXISTS", "b"}})
		if err != nil || len(replies) != 2 {
			t.Fatalf("got %v and the error %v, want two replies", replies, err)
		}
	}
	if len(c.idle) != 1 {
		t.Errorf("%d connections are open, want 1", len(c.idle))
	}
	n.pause()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Do(ctx, [][]string{{"EXISTS", "a"}}); err == nil {
		t.Error("no error although the upstream does not answer")
	}
	n.resume()
	if len(c.idle) != 0 {
		t.Errorf("%d connections are kept after a failure, want 0", len(c.idle))
	}
}

// TestCommands_Away checks the error without an upstream.
func TestCommands_Away(t *testing.T) {
	ln := mustListen(t)
	_ = ln.Close()
	u := run(t, Config{Addresses: []string{ln.Addr().(*net.TCPAddr).String()}, Timeout: time.Second})
	if _, err := (&Commands{Upstream: u}).Do(t.Context(), [][]string{{"PING"}}); err != errAway {
		t.Errorf("got the error %v, want %v", err, errAway)
	}
}
