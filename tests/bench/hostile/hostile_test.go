package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

func TestAttacks(t *testing.T) {
	seen := map[string]bool{}
	list := attacks()
	if len(list) < 300 {
		t.Errorf("%d attacks, want at least 300", len(list))
	}
	for _, a := range append(list, slowAttacks...) {
		if seen[a.name] {
			t.Errorf("two attacks have the name %q", a.name)
		}
		seen[a.name] = true
		if a.grpc && a.text != "" && len(a.text) > 4<<20 {
			t.Errorf("%s: %d bytes, want at most 4 MiB", a.name, len(a.text))
		}
	}
}

func TestRun(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	addr := server.Listener.Addr().String()
	counts := run(settings{http: addr, grpc: addr, lasting: time.Second, rate: 600, workers: 32, slow: 6})
	if counts["4xx"] < 100 || counts["slow"] < 6 || counts["unreachable"] > 0 {
		t.Errorf("got the reactions %v, want at least 100 with a status of 4xx, all slow connections, and none unreachable", counts)
	}
}

func TestSend_Reactions(t *testing.T) {
	for _, tt := range []struct{ reply, want string }{
		{"HTTP/1.1 400 Bad Request\r\n\r\n", "4xx"},
		{"HTTP/1.1 200 OK\r\n\r\n", "2xx"},
		{settingsFrame, "h2"},
		{"", "closed"},
	} {
		addr := answer(t, tt.reply)
		if got := (attack{text: "x"}).send(settings{http: addr}); got != tt.want {
			t.Errorf("server sends %q: got the reaction %s, want %s", tt.reply, got, tt.want)
		}
	}
	ln := listen(t)
	if got := (attack{text: "x"}).send(settings{http: ln.Addr().String()}); got != "silent" {
		t.Errorf("server that does not answer: got the reaction %s, want silent", got)
	}
	_ = ln.Close()
	if got := (attack{grpc: true}).send(settings{grpc: ln.Addr().String()}); got != "unreachable" {
		t.Errorf("no server: got the reaction %s, want unreachable", got)
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

// answer serves one connection: it reads once, sends a reply, and closes the connection.
func answer(t *testing.T, reply string) string {
	t.Helper()
	ln := listen(t)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		_, _ = c.Read(make([]byte, 100))
		_, _ = c.Write([]byte(reply))
		_ = c.Close()
	}()
	return ln.Addr().String()
}

func TestFloods(t *testing.T) {
	for _, a := range grpcAttacks() {
		if a.name != "rapid reset" {
			continue
		}
		text := strings.TrimPrefix(a.text, preface)
		framer := http2.NewFramer(nil, strings.NewReader(text))
		counts := map[http2.FrameType]int{}
		for {
			f, err := framer.ReadFrame()
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			counts[f.Header().Type]++
		}
		if counts[http2.FrameHeaders] != 2000 || counts[http2.FrameRSTStream] != 2000 {
			t.Errorf("%s has the frames %v, want 2000 calls and their resets", a.name, counts)
		}
	}
}
