package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestEdgeRequests(t *testing.T) {
	for _, request := range []string{traefikCheck, throttleCall("/v1/throttle")} {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(request)))
		if err != nil {
			t.Fatalf("%q: %v", request, err)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method == http.MethodPost && !json.Valid(body) {
			t.Errorf("%q: body %q, error: %v; want valid JSON", request, body, err)
		}
	}
}

func TestEdgeMessages(t *testing.T) {
	for _, tt := range []struct{ name, got, want string }{
		{"rls", rlsMessage, "\x0a\x03rls\x12\x13\x0a\x11\x0a\x04user\x12\x09u########"},
		{"throttlecrab", crabMessage, "\x0a\x09k########\x10\xc0\x84\x3d\x18\xc0\x84\x3d\x20\x3c\x28\x01"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: got the message %q, want %q", tt.name, tt.got, tt.want)
		}
	}
}

func TestTarget_Run(t *testing.T) {
	for _, tt := range []struct {
		status int
		want   string // in the error; empty for success
	}{{200, ""}, {429, "refused"}, {500, "failed; first: HTTP/1.1 500"}} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(tt.status) }))
		x := httpTarget("x", server.Listener.Addr().String(), traefikCheck)
		x.load.Requests = 100
		got, err := x.run(1000, time.Minute)
		server.Close()
		if tt.want == "" && (err != nil || got.Admitted == 0) || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("server answers %d: got %+v, error: %v; want an error with %q", tt.status, got, err, tt.want)
		}
	}
}
