package grpcedge

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"
)

// wire builds the bytes that a client sends. Its methods write frames, also malformed ones.
type wire struct {
	bytes.Buffer
	block bytes.Buffer
	hpack *hpack.Encoder
}

// newWire returns a wire with the preface and the settings of a client.
func newWire() *wire {
	w := &wire{}
	w.hpack = hpack.NewEncoder(&w.block)
	w.WriteString(http2.ClientPreface)
	w.frame(http2.FrameSettings, 0, 0, nil)
	return w
}

// frame writes a frame.
func (w *wire) frame(kind http2.FrameType, flags http2.Flags, stream uint32, payload []byte) *wire {
	return w.frameOf(len(payload), kind, flags, stream, payload)
}

// frameOf writes a frame whose header has a length of its own.
func (w *wire) frameOf(length int, kind http2.FrameType, flags http2.Flags, stream uint32, payload []byte) *wire {
	w.Write([]byte{byte(length >> 16), byte(length >> 8), byte(length), byte(kind), byte(flags)})
	_ = binary.Write(w, binary.BigEndian, stream) // a buffer returns no error
	w.Write(payload)
	return w
}

// fields returns a header block with names and values, alternating.
func (w *wire) fields(pairs ...string) []byte {
	w.block.Reset()
	for i := 0; i < len(pairs); i += 2 {
		_ = w.hpack.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]}) // as above
	}
	return bytes.Clone(w.block.Bytes())
}

const rlsPath = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"

// call are the headers of a valid call.
var call = []string{":method", "POST", ":scheme", "http", ":path", rlsPath, ":authority", "x", "content-type", "application/grpc", "te", "trailers"}

// set returns the headers of a call with another value of a header. The header is absent if the value is "".
func set(name, value string) []string {
	var list []string
	for i := 0; i < len(call); i += 2 {
		switch {
		case call[i] != name:
			list = append(list, call[i], call[i+1])
		case value != "":
			list = append(list, name, value)
		}
	}
	return list
}

// with returns the headers of a call with more headers.
func with(pairs ...string) []string { return append(append([]string(nil), call...), pairs...) }

// headers writes a HEADERS frame of stream 1.
func (w *wire) headers(pairs ...string) *wire {
	return w.frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, w.fields(pairs...))
}

// data writes a DATA frame that ends stream 1.
func (w *wire) data(payload []byte) *wire {
	return w.frame(http2.FrameData, http2.FlagDataEndStream, 1, payload)
}

// message returns a message with its prefix.
func message(payload []byte) []byte { return prefixed(0, len(payload), payload) }

func prefixed(compressed byte, length int, payload []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{compressed}, uint32(length)), payload...)
}

// validMessage is a request that is admitted.
func validMessage() []byte {
	b, err := proto.Marshal(request("edge", one("large")))
	if err != nil {
		panic(err)
	}
	return b
}

// hostile is a connection with malformed data.
type hostile struct {
	name string
	send []byte
	end  bool // the client closes its side after it has sent the data
}

// hostileCases returns connections, each of which must be closed, or answered with an error.
func hostileCases() []hostile {
	return append(append(append(prefaces(), frames()...), headerCases()...), messages()...)
}

// prefaces returns connections that do not begin as those of HTTP/2.
func prefaces() []hostile {
	random := make([]byte, 64<<10)
	for i := range random {
		random[i] = byte(rand.Uint32())
	}
	lower := strings.ToLower(http2.ClientPreface)
	return []hostile{
		{"nothing", nil, true},
		{"HTTP/1.1", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), false},
		{"HTTP/1.0", []byte("GET / HTTP/1.0\r\n\r\n"), true},
		{"gRPC over HTTP/1.1", []byte("POST " + rlsPath + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/grpc\r\n\r\n"), false},
		{"upgrade", []byte("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"), false},
		{"TLS", append([]byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, make([]byte, 505)...), false},
		{"RESP", []byte("*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n"), false},
		{"PROXY v1", []byte("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n" + http2.ClientPreface), false},
		{"SSH", []byte("SSH-2.0-OpenSSH_9.9\r\n12345678901234567890"), false},
		{"zeros", make([]byte, 1000), false},
		{"random", random, true},
		{"part of the preface", []byte(http2.ClientPreface[:10]), true},
		{"preface in lower case", []byte(lower), false},
		{"wrong end of the preface", []byte(http2.ClientPreface[:20] + "----"), false},
		{"preface only", []byte(http2.ClientPreface), true},
		{"preface twice", []byte(http2.ClientPreface + http2.ClientPreface), false},
	}
}

// raw returns a connection whose first frame after the preface is not SETTINGS.
func raw(kind http2.FrameType, stream uint32, payload []byte) []byte {
	w := &wire{}
	w.WriteString(http2.ClientPreface)
	return w.frame(kind, 0, stream, payload).Bytes()
}

func sent(w *wire) []byte { return w.Bytes() }

// frames returns connections with malformed frames.
func frames() []hostile {
	const headersEnd = http2.FlagHeadersEndHeaders
	setting := func(id uint16, value uint32) []byte {
		return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(nil, id), value)
	}
	block := newWire().fields(call...)
	list := []hostile{
		{"HEADERS first", raw(http2.FrameHeaders, 1, block), false},
		{"DATA first", raw(http2.FrameData, 1, []byte("x")), false},
		{"PING first", raw(http2.FramePing, 0, make([]byte, 8)), false},
		{"unknown frame first", raw(77, 0, []byte("x")), false},
		{"SETTINGS of 5 bytes", raw(http2.FrameSettings, 0, make([]byte, 5)), false},
		{"SETTINGS of a stream", raw(http2.FrameSettings, 1, make([]byte, 6)), false},
		{"SETTINGS ACK with data", sent(newWire().frame(http2.FrameSettings, http2.FlagSettingsAck, 0, make([]byte, 6))), false},
		{"window of 2^31", sent(newWire().frame(http2.FrameSettings, 0, 0, setting(4, 1<<31))), false},
		{"part of a frame header", append(sent(newWire()), 0, 0), true},
		{"part of a frame", sent(newWire().frameOf(100, http2.FrameHeaders, headersEnd, 1, block[:20])), true},
		{"frame of 16 MiB", sent(newWire().frameOf(1<<24-1, http2.FrameData, 0, 1, nil)), false},
		{"frame above the maximum", sent(newWire().frame(http2.FrameData, 0, 1, make([]byte, 16385))), false},
		{"HEADERS of stream 0", sent(newWire().frame(http2.FrameHeaders, headersEnd, 0, block)), false},
		{"HEADERS of an even stream", sent(newWire().frame(http2.FrameHeaders, headersEnd, 2, block)), false},
		{"stream numbers that decrease", sent(newWire().frame(http2.FrameHeaders, headersEnd, 3, block).frame(http2.FrameHeaders, headersEnd, 1, block)), false},
		{"HEADERS without an end", sent(newWire().frame(http2.FrameHeaders, 0, 1, block).frame(http2.FramePing, 0, 0, make([]byte, 8))), false},
		{"CONTINUATION first", sent(newWire().frame(http2.FrameContinuation, http2.FlagContinuationEndHeaders, 1, block)), false},
		{"CONTINUATION of another stream", sent(newWire().frame(http2.FrameHeaders, 0, 1, block).frame(http2.FrameContinuation, http2.FlagContinuationEndHeaders, 3, nil)), false},
		{"HEADERS with too much padding", sent(newWire().frame(http2.FrameHeaders, headersEnd|http2.FlagHeadersPadded, 1, append([]byte{255}, block...))), false},
		{"HEADERS with priority of 2 bytes", sent(newWire().frame(http2.FrameHeaders, headersEnd|http2.FlagHeadersPriority, 1, []byte{0, 0})), false},
		{"DATA of stream 0", sent(newWire().frame(http2.FrameData, 0, 0, []byte("x"))), false},
		{"DATA with too much padding", sent(newWire().headers(call...).frame(http2.FrameData, http2.FlagDataPadded, 1, []byte{9, 0})), false},
		{"PRIORITY of 4 bytes", sent(newWire().frame(http2.FramePriority, 0, 1, make([]byte, 4))), false},
		{"PRIORITY of stream 0", sent(newWire().frame(http2.FramePriority, 0, 0, make([]byte, 5))), false},
		{"RST_STREAM of 3 bytes", sent(newWire().frame(http2.FrameRSTStream, 0, 1, make([]byte, 3))), false},
		{"RST_STREAM of stream 0", sent(newWire().frame(http2.FrameRSTStream, 0, 0, make([]byte, 4))), false},
		{"PING of 7 bytes", sent(newWire().frame(http2.FramePing, 0, 0, make([]byte, 7))), false},
		{"PING of a stream", sent(newWire().frame(http2.FramePing, 0, 1, make([]byte, 8))), false},
		{"GOAWAY of a stream", sent(newWire().frame(http2.FrameGoAway, 0, 1, make([]byte, 8))), false},
		{"GOAWAY of 4 bytes", sent(newWire().frame(http2.FrameGoAway, 0, 0, make([]byte, 4))), false},
		{"WINDOW_UPDATE of 0", sent(newWire().frame(http2.FrameWindowUpdate, 0, 0, make([]byte, 4))), false},
		{"WINDOW_UPDATE of 3 bytes", sent(newWire().frame(http2.FrameWindowUpdate, 0, 0, make([]byte, 3))), false},
		{"WINDOW_UPDATE of 0 for a stream", sent(newWire().headers(call...).frame(http2.FrameWindowUpdate, 0, 1, make([]byte, 4))), false},
		{"PUSH_PROMISE", sent(newWire().frame(http2.FramePushPromise, 0, 1, make([]byte, 3))), false},
		{"PUSH_PROMISE of stream 0", sent(newWire().frame(http2.FramePushPromise, http2.FlagPushPromiseEndHeaders, 0, make([]byte, 4))), false},
	}
	for name, bad := range map[string][]byte{
		"HPACK index 0": {0x80}, "HPACK index of no entry": {0xff, 0x80, 0x01}, "HPACK text without an end": {0x40, 0x7f}, "HPACK number that is too large": {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		"HPACK table that is too large": {0x3f, 0xff, 0xff, 0xff, 0x7f}, "HPACK with a wrong Huffman code": {0x40, 0x84, 0xff, 0xff, 0xff, 0xff, 0x01, 'x'},
	} {
		list = append(list, hostile{name, sent(newWire().frame(http2.FrameHeaders, headersEnd, 1, bad)), false})
	}
	return list
}

// headerCases returns calls with malformed headers.
func headerCases() []hostile {
	big := strings.Repeat("x", 4000)
	var many, large []string
	for range 2000 {
		many = append(many, "a", "b")
	}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		large = append(large, name, big)
	}
	var list []hostile
	for _, tt := range []struct {
		name  string
		pairs []string
	}{
		{"no method", set(":method", "")}, {"GET", set(":method", "GET")}, {"PUT", set(":method", "PUT")}, {"CONNECT", set(":method", "CONNECT")},
		{"no path", set(":path", "")}, {"path without a slash", set(":path", "x")}, {"path of one word", set(":path", "/x")},
		{"unknown service", set(":path", "/x/ShouldRateLimit")}, {"unknown method", set(":path", "/envoy.service.ratelimit.v3.RateLimitService/x")},
		{"path of 4,000 bytes", set(":path", "/"+big)}, {"dots in the path", set(":path", "/.."+rlsPath)}, {"path that is not UTF-8", set(":path", "/\xff\xfe/x")},
		{"no content type", set("content-type", "")}, {"content type text", set("content-type", "text/plain")}, {"content type JSON", set("content-type", "application/json")},
		{"content type similar to gRPC", set("content-type", "application/grpcx")}, {"gRPC-web", set("content-type", "application/grpc-web")},
		{"name in upper case", with("X-Upper", "x")}, {"name with a space", with("a b", "x")}, {"name that is empty", with("", "x")},
		{"value with a line end", with("x", "a\r\nb: c")}, {"value with NUL", with("x", "a\x00b")},
		{"pseudo-header after others", with(":path", rlsPath)}, {"path twice", append([]string{":path", "/x"}, call...)}, {"unknown pseudo-header", append([]string{":x", "y"}, call...)},
		{"pseudo-header of responses", append([]string{":status", "200"}, call...)},
		{"connection", with("connection", "keep-alive")},
		{"timeout without a unit", with("grpc-timeout", "1")}, {"timeout with a wrong unit", with("grpc-timeout", "1X")}, {"negative timeout", with("grpc-timeout", "-1S")},
		{"timeout of 0", with("grpc-timeout", "0n")}, {"timeout of a word", with("grpc-timeout", "soonS")}, {"timeout with 12 digits", with("grpc-timeout", "999999999999H")}, {"empty timeout", with("grpc-timeout", "")},
		{"unknown encoding", with("grpc-encoding", "snappy")},
		{"metadata that is not base64", with("x-bin", "!!!")},
		{"20,000 bytes of headers", with(large...)}, {"2,000 headers", with(many...)},
		{"two hosts", with("host", "a", "host", "b")},
	} {
		list = append(list, hostile{tt.name, sent(newWire().headers(tt.pairs...).data(message(validMessage()))), false})
	}
	return list
}

// messages returns calls with malformed messages.
func messages() []hostile {
	valid := validMessage()
	groups := bytes.Repeat([]byte{0x7b}, 20_000) // the start of group 15
	var list []hostile
	add := func(name string, payload []byte) {
		list = append(list, hostile{name, sent(newWire().headers(call...).data(payload)), false})
	}
	add("no message", nil)
	add("part of the prefix", message(valid)[:4])
	add("part of the message", message(valid)[:10])
	add("empty message", message(nil))
	add("length of 4 GiB", prefixed(0, 1<<32-1, valid))
	add("length above the maximum", prefixed(0, maxMessage+1, valid))
	add("compressed without an encoding", prefixed(1, len(valid), valid))
	add("compression flag 2", prefixed(2, len(valid), valid))
	add("compression flag 255", prefixed(255, len(valid), valid))
	for name, payload := range map[string][]byte{
		"text": []byte("hello"), "number without an end": {0x18, 0xff}, "number of 11 bytes": append([]byte{0x18}, bytes.Repeat([]byte{0xff}, 11)...), "field 0": {0x00, 0x01},
		"wire type 6": {0x0e}, "wire type 7": {0x0f}, "end of a group": {0x0c}, "groups without an end": groups[:100], "deep groups": groups,
		"length after the end": {0x0a, 0x7f, 'x'}, "negative length": {0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, "descriptor without an end": {0x12, 0x05, 0x0a, 0x09},
		"domain that is not UTF-8": {0x0a, 0x02, 0xff, 0xfe},
		"key that is not UTF-8":    {0x0a, 0x01, 'd', 0x12, 0x05, 0x0a, 0x03, 0x0a, 0x01, 0xff}, "value that is not UTF-8": {0x0a, 0x01, 'd', 0x12, 0x05, 0x0a, 0x03, 0x12, 0x01, 0xff},
		"wrong type of the domain": {0x08, 0x01}, "descriptors without entries": append([]byte{0x0a, 0x01, 'd'}, bytes.Repeat([]byte{0x12, 0x00}, 5000)...),
	} {
		add("protobuf: "+name, message(payload))
	}
	bomb := append([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff}, bytes.Repeat([]byte{0xec}, 1000)...)
	list = append(list,
		hostile{"gzip", sent(newWire().headers(with("grpc-encoding", "gzip")...).data(prefixed(1, len(bomb), bomb))), false},
		hostile{"DATA after the end", sent(newWire().headers(set("content-type", "text/plain")...).data(message(valid)).data(message(valid))), false},
		hostile{"message without an end", sent(newWire().headers(call...).frame(http2.FrameData, 0, 1, message(valid)[:8])), true},
	)
	return list
}

// outcome is the reaction of the server: "closed", "goaway", "reset", or the status of the call, such as "HTTP 200, gRPC 12".
func outcome(conn net.Conn) (string, error) {
	framer := http2.NewFramer(io.Discard, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	httpStatus, grpcStatus := "", ""
	for {
		f, err := framer.ReadFrame()
		var timeout net.Error
		switch {
		case errors.As(err, &timeout) && timeout.Timeout():
			return "", err
		case err != nil:
			return "closed", nil
		}
		switch f := f.(type) {
		case *http2.GoAwayFrame:
			return "goaway", nil
		case *http2.RSTStreamFrame:
			return "reset", nil
		case *http2.MetaHeadersFrame:
			for _, field := range f.Fields {
				switch field.Name {
				case ":status":
					httpStatus = field.Value
				case "grpc-status":
					grpcStatus = field.Value
				}
			}
			if f.StreamEnded() {
				return "HTTP " + httpStatus + ", gRPC " + grpcStatus, nil
			}
		}
	}
}

// TestHostile sends malformed data, and checks that the server closes the connection or returns an error, and that other
// clients are served.
func TestHostile(t *testing.T) {
	l := newLab(t, conventionRules)
	client := l.client()
	cases := hostileCases()
	if len(cases) < 100 {
		t.Errorf("%d cases", len(cases))
	}
	t.Run("cases", func(t *testing.T) {
		for _, tt := range cases {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				got, err := tt.outcome(l.addr)
				if err != nil || strings.HasSuffix(got, "gRPC 0") {
					t.Errorf("%q, %v; want an error or a closed connection", got, err)
				}
				if _, err := client.ShouldRateLimit(context.Background(), request("edge", one("large"))); err != nil {
					t.Errorf("another client: %v", err)
				}
			})
		}
	})
}

// TestTolerated checks that calls with harmless additions are answered.
func TestTolerated(t *testing.T) {
	l := newLab(t, conventionRules)
	valid := message(validMessage())
	for _, tt := range []hostile{
		{"valid", sent(newWire().headers(call...).data(valid)), false},
		{"two messages", sent(newWire().headers(call...).data(append(valid, valid...))), false},
		{"bytes after the message", sent(newWire().headers(call...).data(append(valid, 'x'))), false},
		{"unknown codec", sent(newWire().headers(set("content-type", "application/grpc+thrift")...).data(valid)), false},
		{"unknown frame", sent(newWire().frame(77, 0xff, 9, []byte("x")).headers(call...).data(valid)), false},
		{"unknown setting", sent(newWire().frame(http2.FrameSettings, 0, 0, []byte{0xff, 0, 0, 0, 0, 1}).headers(call...).data(valid)), false},
		{"padding", sent(newWire().headers(call...).frame(http2.FrameData, http2.FlagDataPadded|http2.FlagDataEndStream, 1, append(append([]byte{3}, valid...), 0, 0, 0))), false},
		{"unknown field", sent(newWire().headers(call...).data(message(append(validMessage(), 0xf8, 0x07, 1)))), false},
	} {
		if got, err := tt.outcome(l.addr); err != nil || got != "HTTP 200, gRPC 0" {
			t.Errorf("%s: %q, %v", tt.name, got, err)
		}
	}
}

// outcome sends the data on a new connection.
func (h *hostile) outcome(addr string) (string, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return "", err
	}
	if _, err := conn.Write(h.send); err != nil {
		return "closed", nil
	}
	if h.end {
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			return "closed", nil
		}
	}
	return outcome(conn)
}
