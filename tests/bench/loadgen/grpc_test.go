package loadgen

import (
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// grpcServer answers calls over HTTP/2 without TLS with the message that answer returns for a request message.
func grpcServer(t *testing.T, answer func(message string) (reply, status string)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		reply, status := "", "3"
		if r.URL.Path == "/s/m" && r.Header.Get("Te") == "trailers" && len(body) > 5 && int(binary.BigEndian.Uint32(body[1:])) == len(body)-5 {
			reply, status = answer(string(body[5:]))
		}
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status, Grpc-Message")
		if status == "0" {
			_, _ = w.Write(append([]byte{0, 0, 0, 0, byte(len(reply))}, reply...))
		}
		w.Header().Set("Grpc-Status", status)
		w.Header().Set("Grpc-Message", reply)
	})
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go (&http2.Server{}).ServeConn(c, &http2.ServeConnOpts{Handler: handler})
		}
	}()
	return ln.Addr().String()
}

func grpcLoad(t *testing.T, addr string) Load {
	message := template(t, "key "+Placeholder)
	return Load{
		Addr: addr, Protocol: func() Protocol { return NewGRPC("/s/m", message) },
		Conns: 2, Streams: 8, Keys: 10, Warmup: time.Millisecond, Duration: time.Minute, Requests: 500,
	}
}

func TestRun_GRPC(t *testing.T) {
	addr := grpcServer(t, func(message string) (string, string) {
		if message == "key 00000003" {
			return "\x08\x02", "0"
		}
		return "\x08\x01\x12\x02\x08\x01", "0"
	})
	for _, rate := range []float64{0, 500} {
		load := grpcLoad(t, addr)
		load.Rate = rate
		r, err := Run(load)
		if err != nil {
			t.Fatal(err)
		}
		if r.Failed > 0 || r.Refused == 0 || r.Admitted <= r.Refused {
			t.Errorf("rate %v: got %+v, want more admitted than refused, and none failed", rate, r)
		}
	}
}

func TestRun_GRPCFailures(t *testing.T) {
	r, err := Run(grpcLoad(t, grpcServer(t, func(string) (string, string) { return "no rules", "14" })))
	if err != nil || r.Failed == 0 || r.Admitted+r.Refused > 0 || !strings.Contains(r.Failure, `grpc-status "14": no rules`) {
		t.Errorf("server answers with status 14: got %+v, error: %v; want failures with its message", r, err)
	}
}

func TestGRPC_Parse(t *testing.T) {
	g := NewGRPC("/s/m", template(t, Placeholder))
	settings := "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	ack := "\x00\x00\x00\x04\x01\x00\x00\x00\x00"
	ping := "\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678"
	pong := "\x00\x00\x08\x06\x01\x00\x00\x00\x0012345678"
	reset := "\x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x07"
	late := "\x00\x00\x04\x03\x00\x00\x00\x00\x03\x00\x00\x00\x00" // after a complete reply
	in := settings + ack + ping + pong + reset + late
	parsed, out, replies, err := g.Parse([]byte(in+ping[:12]), nil, nil)
	if parsed != len(in) || string(out) != ack+pong || err != nil {
		t.Errorf("parsed %d of %d bytes, answers %q, error: %v", parsed, len(in), out, err)
	}
	if len(replies) != 1 || replies[0].Request != 1 || replies[0].Outcome != Failed {
		t.Errorf("got the replies %+v, want a failure of stream 1", replies)
	}
	for _, bad := range []string{
		"\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x02", // GOAWAY
		"\x00\x00\x00\x09\x04\x00\x00\x00\x01",                                 // CONTINUATION
		"\x00\x00\x01\x01\x00\x00\x00\x00\x01\x88",                             // headers without END_HEADERS
		"\x00\x00\x01\x01\x05\x00\x00\x00\x01\xff",                             // malformed HPACK
	} {
		if _, _, _, err := g.Parse([]byte(bad), nil, nil); err == nil {
			t.Errorf("%q: no error, want one", bad)
		}
	}
}
