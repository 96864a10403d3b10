package grpcedge

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/throttledhq/throttled/internal/race"
)

// flood is a connection with many frames.
type flood struct {
	name   string
	frames int
	frame  func(w *wire, i int)
}

var floods = []flood{
	{"rapid reset", 50_000, func(w *wire, i int) {
		stream := uint32(2*i + 1)
		w.frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, stream, w.fields(call...))
		w.frame(http2.FrameRSTStream, 0, stream, binary.BigEndian.AppendUint32(nil, uint32(http2.ErrCodeCancel)))
	}},
	{"rapid reset of complete calls", 50_000, func(w *wire, i int) {
		stream := uint32(2*i + 1)
		w.frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, stream, w.fields(call...))
		w.frame(http2.FrameData, http2.FlagDataEndStream, stream, message(validMessage()))
		w.frame(http2.FrameRSTStream, 0, stream, binary.BigEndian.AppendUint32(nil, uint32(http2.ErrCodeCancel)))
	}},
	{"resets that the server sends", 50_000, func(w *wire, i int) { // "made you reset"
		stream := uint32(2*i + 1)
		w.frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, stream, w.fields(call...))
		w.frame(http2.FrameWindowUpdate, 0, stream, make([]byte, 4))
	}},
	{"streams without an end", 5_000, func(w *wire, i int) {
		w.frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, uint32(2*i+1), w.fields(call...))
	}},
	{"messages without an end", 5_000, func(w *wire, i int) {
		w.frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, uint32(2*i+1), w.fields(call...))
		w.frame(http2.FrameData, 0, uint32(2*i+1), prefixed(0, maxMessage, make([]byte, 16_000)))
	}},
	{"SETTINGS", 100_000, func(w *wire, _ int) { w.frame(http2.FrameSettings, 0, 0, nil) }},
	{"PING", 100_000, func(w *wire, _ int) { w.frame(http2.FramePing, 0, 0, make([]byte, 8)) }},
	{"WINDOW_UPDATE", 100_000, func(w *wire, _ int) { w.frame(http2.FrameWindowUpdate, 0, 0, []byte{0, 0, 0, 1}) }},
	{"PRIORITY", 100_000, func(w *wire, i int) { w.frame(http2.FramePriority, 0, uint32(2*i+1), make([]byte, 5)) }},
	{"RST_STREAM", 100_000, func(w *wire, i int) { w.frame(http2.FrameRSTStream, 0, uint32(2*i+1), make([]byte, 4)) }},
	{"unknown frames", 100_000, func(w *wire, _ int) { w.frame(99, 0, 0, make([]byte, 100)) }},
	{"empty DATA", 100_000, func(w *wire, i int) {
		if i == 0 {
			w.headers(call...)
		}
		w.frame(http2.FrameData, 0, 1, nil)
	}},
	{"CONTINUATION", 100_000, func(w *wire, i int) {
		if i == 0 {
			w.frame(http2.FrameHeaders, 0, 1, w.fields(call...))
		}
		w.frame(http2.FrameContinuation, 0, 1, w.fields("a", fmt.Sprint(i)))
	}},
	{"empty CONTINUATION", 100_000, func(w *wire, i int) {
		if i == 0 {
			w.frame(http2.FrameHeaders, 0, 1, w.fields(call...))
		}
		w.frame(http2.FrameContinuation, 0, 1, nil)
	}},
}

// floodMemory is the memory in bytes by which the process may grow during a flood. The frames have several times this size, or
// would make the server keep it.
const floodMemory = 64 << 20

// TestFloods sends many frames on one connection, whose replies are not read. Another client must be served meanwhile, and the
// server must not keep memory for the frames.
func TestFloods(t *testing.T) {
	l := newLab(t, conventionRules)
	client := l.client()
	ask := func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := client.ShouldRateLimit(ctx, request("edge", one("large"))); err != nil {
			t.Errorf("another client: %v", err)
		}
	}
	ask()
	for _, tt := range floods {
		t.Run(tt.name, func(t *testing.T) {
			before := memory()
			sent := make(chan error, 1)
			conn, err := net.Dial("tcp", l.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			go func() { sent <- tt.send(conn) }()
			for done := false; !done; {
				select {
				case <-sent: // an error means that the server has closed the connection, or does not read before its replies are read
					done = true
				default:
				}
				ask()
			}
			if grown := memory() - before; grown > floodMemory {
				t.Errorf("the memory has grown by %d bytes", grown)
			}
		})
	}
}

// TestIdleConnections checks the memory of connections that do nothing.
func TestIdleConnections(t *testing.T) {
	const connections, most = 400, 64 << 10
	l := newLab(t, conventionRules)
	before := memory()
	for range connections {
		conn, err := net.Dial("tcp", l.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := conn.Write(newWire().Bytes()); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 9+9)); err != nil { // the header of the settings, and that of their acknowledgment
			t.Fatal(err)
		}
	}
	if each := (memory() - before) / connections; each > most {
		t.Errorf("a connection needs %d bytes, want at most %d", each, most)
	} else {
		t.Logf("a connection needs %d bytes", each)
	}
}

// send sends the frames.
func (f *flood) send(conn io.Writer) error {
	w, frames := newWire(), f.frames/race.Factor
	for i := range frames {
		f.frame(w, i)
		if w.Len() > 1<<16 || i == frames-1 {
			if _, err := conn.Write(w.Bytes()); err != nil {
				return err
			}
			w.Reset()
		}
	}
	return nil
}

// memory returns the bytes of the live heap and of stacks.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
