package main

import (
	"bytes"
	"fmt"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	preface       = http2.ClientPreface
	settingsFrame = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	rlsMethod     = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
)

// frames collects the bytes of an HTTP/2 connection. The framer permits frames that violate the protocol.
type frames struct {
	text    bytes.Buffer
	framer  *http2.Framer
	block   bytes.Buffer
	encoder *hpack.Encoder
}

func newFrames() *frames {
	f := &frames{}
	f.framer = http2.NewFramer(&f.text, nil)
	f.framer.AllowIllegalWrites = true
	f.encoder = hpack.NewEncoder(&f.block)
	f.text.WriteString(preface + settingsFrame)
	return f
}

// headers encodes the headers of a call, and further fields, as pairs of name and value.
func (f *frames) headers(method string, more ...string) []byte {
	f.block.Reset()
	fields := append([]string{
		":method", "POST", ":scheme", "http", ":path", method, ":authority", "localhost", "content-type", "application/grpc", "te", "trailers",
	}, more...)
	for i := 0; i < len(fields); i += 2 {
		_ = f.encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}) // a bytes.Buffer has no errors
	}
	return bytes.Clone(f.block.Bytes())
}

// open begins a call on a stream.
func (f *frames) open(stream uint32, end bool, more ...string) {
	f.check(f.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: f.headers(rlsMethod, more...), EndHeaders: true, EndStream: end,
	}))
}

func (f *frames) raw(kind http2.FrameType, flags http2.Flags, stream uint32, payload string) {
	f.check(f.framer.WriteRawFrame(kind, flags, stream, []byte(payload)))
}

func (f *frames) call(stream uint32, data string) {
	f.open(stream, false)
	f.raw(http2.FrameData, http2.FlagDataEndStream, stream, data)
}

// check panics, since the buffer of the framer has no errors.
func (*frames) check(err error) {
	if err != nil {
		panic(err)
	}
}

func slowMessage() string {
	f := newFrames()
	f.open(1, false)
	return f.text.String() + strings.Repeat("\x00\x00\x01\x00\x00\x00\x00\x00\x01\x00", 40)
}

// grpcAttacks returns the attacks on the gRPC server.
func grpcAttacks() []attack {
	var list []attack
	add := func(name string, build func(f *frames)) {
		f := newFrames()
		build(f)
		list = append(list, attack{name: name, grpc: true, text: f.text.String()})
	}
	for i, text := range []string{"", "GET / HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", preface, preface[:10], preface + strings.Repeat("\xff", 100), "*1\r\n$4\r\nPING\r\n"} {
		list = append(list, attack{name: fmt.Sprintf("preface %d", i), grpc: true, text: text})
	}
	for i, message := range messages {
		add(fmt.Sprintf("message %d", i), func(f *frames) { f.call(1, message) })
	}
	for _, v := range violations {
		add(v.name, v.build)
	}
	for _, fl := range floods {
		add(fl.name, func(f *frames) {
			for n := range fl.count {
				fl.frame(f, uint32(2*n+1))
			}
		})
	}
	return list
}

// messages are malformed gRPC messages: prefix of five bytes, and protobuf.
var messages = []string{
	"", "\x00", "\x00\x00\x00\x00\x05ab", "\x00\xff\xff\xff\xff", "\x01\x00\x00\x00\x01a", "\x07\x00\x00\x00\x01a", "\x00\x00\x00\x00\x01\xff",
	"\x00\x00\x00\x00\x03\x0a\xffa", "\x00\x00\x00\x00\x06\x0a\x04\xff\xfe\xfd\xfc", "\x00\x00\x00\x00\x0a\x18\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
	"\x00\x00\x00\x00\x00", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "\x00\x00\x00\x40\x00" + strings.Repeat("\x12\x00", 8192),
	"\x00\x00\x00\x30\x00" + strings.Repeat("\x0b", 0x3000), "\x00\x00\x00\x20\x02\x0a\x80\x40" + strings.Repeat("d", 8191),
}

// violations break the rules of HTTP/2.
var violations = []struct {
	name  string
	build func(f *frames)
}{
	{"even stream", func(f *frames) { f.open(2, true) }},
	{"stream 0 headers", func(f *frames) { f.raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 0, "\x82") }},
	{"stream 0 data", func(f *frames) { f.raw(http2.FrameData, 0, 0, "x") }},
	{"data on an idle stream", func(f *frames) { f.raw(http2.FrameData, 0, 5, "x") }},
	{"decreasing streams", func(f *frames) { f.open(9, true); f.open(3, true) }},
	{"headers twice", func(f *frames) { f.open(1, false); f.open(1, false) }},
	{"data after the end", func(f *frames) { f.open(1, true); f.raw(http2.FrameData, 0, 1, "x") }},
	{"short settings", func(f *frames) { f.raw(http2.FrameSettings, 0, 0, "abc") }},
	{"window too large", func(f *frames) { f.raw(http2.FrameSettings, 0, 0, "\x00\x04\xff\xff\xff\xff") }},
	{"frame size too small", func(f *frames) { f.raw(http2.FrameSettings, 0, 0, "\x00\x05\x00\x00\x00\x01") }},
	{"window of 0", func(f *frames) {
		f.raw(http2.FrameSettings, 0, 0, "\x00\x04\x00\x00\x00\x00")
		f.call(1, "\x00\x00\x00\x00\x00")
	}},
	{"window update of 0", func(f *frames) { f.raw(http2.FrameWindowUpdate, 0, 0, "\x00\x00\x00\x00") }},
	{"window overflow", func(f *frames) { f.raw(http2.FrameWindowUpdate, 0, 0, "\x7f\xff\xff\xff") }},
	{"short ping", func(f *frames) { f.raw(http2.FramePing, 0, 0, "abc") }},
	{"push promise", func(f *frames) { f.raw(http2.FramePushPromise, 0, 1, "\x00\x00\x00\x02") }},
	{"continuation alone", func(f *frames) { f.raw(http2.FrameContinuation, 0, 1, "\x82") }},
	{"unfinished headers", func(f *frames) { f.raw(http2.FrameHeaders, 0, 1, "\x82"); f.raw(http2.FramePing, 0, 0, "12345678") }},
	{"hpack index", func(f *frames) { f.raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, "\xff\xff\xff\xff\x7f") }},
	{"hpack length", func(f *frames) {
		f.raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, "\x40\x7f\xff\xff\xff\x07a")
	}},
	{"hpack table size", func(f *frames) { f.raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, "\x3f\xff\xff\xff\x7f") }},
	{"unknown frame", func(f *frames) { f.raw(0x42, 0xff, 7, strings.Repeat("x", 16_000)) }},
	{"frame of 16 MB", func(f *frames) { f.text.WriteString("\xff\xff\xff\x00\x00\x00\x00\x00\x01") }},
	{"padding too long", func(f *frames) { f.open(1, false); f.raw(http2.FrameData, http2.FlagDataPadded, 1, "\xffabc") }},
	{"priority on itself", func(f *frames) { f.raw(http2.FramePriority, 0, 1, "\x00\x00\x00\x01\x10") }},
	{"goaway", func(f *frames) { f.raw(http2.FrameGoAway, 0, 0, "\x00\x00\x00\x00\x00\x00\x00\x00"); f.open(1, true) }},
	{"long header", func(f *frames) { f.open(1, true, "x-long", strings.Repeat("v", 15_000)) }},
	{"upper case header", func(f *frames) { f.open(1, true, "X-Upper", "v") }},
	{"connection header", func(f *frames) { f.open(1, true, "connection", "close") }},
	{"two paths", func(f *frames) { f.open(1, true, ":path", "/other") }},
	{"long timeout", func(f *frames) { f.open(1, true, "grpc-timeout", "99999999999H") }},
	{"unknown encoding", func(f *frames) { f.open(1, true, "grpc-encoding", "bomb") }},
	{"guessed password", func(f *frames) { f.open(1, true, "authorization", "Bearer guess") }},
}

// floods repeat frames that are cheap for a client.
var floods = []struct {
	name  string
	count int
	frame func(f *frames, stream uint32)
}{
	{"rapid reset", 2000, func(f *frames, stream uint32) {
		f.open(stream, false)
		f.raw(http2.FrameRSTStream, 0, stream, "\x00\x00\x00\x08")
	}},
	{"rapid reset of complete calls", 1000, func(f *frames, stream uint32) {
		f.call(stream, "\x00\x00\x00\x00\x00")
		f.raw(http2.FrameRSTStream, 0, stream, "\x00\x00\x00\x08")
	}},
	{"streams without an end", 2000, func(f *frames, stream uint32) { f.open(stream, false) }},
	{"pings", 5000, func(f *frames, _ uint32) { f.raw(http2.FramePing, 0, 0, "12345678") }},
	{"settings", 5000, func(f *frames, _ uint32) { f.raw(http2.FrameSettings, 0, 0, "") }},
	{"priorities", 5000, func(f *frames, stream uint32) { f.raw(http2.FramePriority, 0, stream, "\x00\x00\x00\x00\x10") }},
	{"empty data", 5000, func(f *frames, stream uint32) {
		if stream == 1 {
			f.open(1, false)
		}
		f.raw(http2.FrameData, 0, 1, "")
	}},
	{"continuations", 2000, func(f *frames, stream uint32) {
		if stream == 1 {
			f.raw(http2.FrameHeaders, 0, 1, "\x82")
		}
		f.raw(http2.FrameContinuation, 0, 1, strings.Repeat("\x82", 200))
	}},
	{"references to one long header", 100, func(f *frames, stream uint32) {
		f.open(stream, true, "x-bomb", strings.Repeat("b", 3000), "x-bomb", strings.Repeat("b", 3000), "x-bomb", strings.Repeat("b", 3000))
	}},
	{"window updates", 5000, func(f *frames, _ uint32) { f.raw(http2.FrameWindowUpdate, 0, 0, "\x00\x00\x00\x01") }},
}
