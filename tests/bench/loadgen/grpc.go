package loadgen

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// GRPC is a Protocol for unary gRPC calls over HTTP/2 without TLS. The first byte of the reply of both the ratelimit
// service of Envoy and throttlecrab is field 1 of a message, and its value 1 means admitted.
type GRPC struct {
	message Template
	path    string
	headers []byte // the header block of a request, if the server has received the first one
	first   []byte // the header block of the first request
	next    uint32 // stream of the next request
	decoder *hpack.Decoder
	fields  replyFields
	streams map[uint32]Outcome // outcomes of streams whose trailers have not arrived
	taken   uint32             // bytes of data since the last update of the window
}

// replyFields holds the fields of the header block that is decoded.
type replyFields struct{ httpStatus, status, message string }

// NewGRPC returns the protocol of a connection that calls a method, such as /package.Service/Method, with one message.
func NewGRPC(method string, message Template) *GRPC {
	g := &GRPC{message: message, path: method, next: 1, streams: map[uint32]Outcome{}}
	g.decoder = hpack.NewDecoder(4096, g.fields.add)
	g.encodeHeaders()
	return g
}

// encodeHeaders encodes the headers of a request twice: the first block adds them to the table of the server, and the
// following blocks refer to this table, as those of other clients do.
func (g *GRPC) encodeHeaders() {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, out := range []*[]byte{&g.first, &g.headers} {
		block.Reset()
		for _, field := range [][2]string{
			{":method", "POST"}, {":scheme", "http"}, {":path", g.path}, {":authority", "localhost"},
			{"content-type", "application/grpc"}, {"te", "trailers"}, {"user-agent", "loadgen"},
		} {
			_ = encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}) // a bytes.Buffer has no errors
		}
		*out = bytes.Clone(block.Bytes())
	}
}

const (
	frameHeader = 9
	bigWindow   = math.MaxInt32
	firstWindow = 65535
	noError     = "\x00\x00\x00\x00" // error code of RST_STREAM
)

// Open appends the preface of HTTP/2 with a window that needs rare updates.
func (g *GRPC) Open(out []byte) []byte {
	out = append(out, http2.ClientPreface...)
	out = appendFrame(out, http2.FrameSettings, 0, 0, 6)
	out = binary.BigEndian.AppendUint16(out, uint16(http2.SettingInitialWindowSize))
	out = binary.BigEndian.AppendUint32(out, bigWindow)
	return appendWindow(out, bigWindow-firstWindow)
}

func appendFrame(out []byte, kind http2.FrameType, flags http2.Flags, stream uint32, length int) []byte {
	out = append(out, byte(length>>16), byte(length>>8), byte(length), byte(kind), byte(flags))
	return binary.BigEndian.AppendUint32(out, stream)
}

// appendWindow appends a frame that increases the window of the connection.
func appendWindow(out []byte, by uint32) []byte {
	return binary.BigEndian.AppendUint32(appendFrame(out, http2.FrameWindowUpdate, 0, 0, 4), by)
}

// Append appends a request. Its number is the number of its stream.
func (g *GRPC) Append(out []byte, key uint64) ([]byte, uint32) {
	stream, block := g.next, g.headers
	if stream == 1 {
		block = g.first
	}
	g.next += 2
	out = appendFrame(out, http2.FrameHeaders, http2.FlagHeadersEndHeaders, stream, len(block))
	out = append(out, block...)
	out = appendFrame(out, http2.FrameData, http2.FlagDataEndStream, stream, 5+len(g.message.text))
	out = append(out, 0) // not compressed
	out = binary.BigEndian.AppendUint32(out, uint32(len(g.message.text)))
	return g.message.append(out, key), stream
}

// Parse parses the frames that unary replies consist of, and acknowledges settings and pings. It does not support
// padding, priorities, and header blocks of several frames, which gRPC servers do not send in short replies.
func (g *GRPC) Parse(in, out []byte, replies []Reply) (parsed int, _ []byte, _ []Reply, err error) {
	for len(in)-parsed >= frameHeader {
		head := in[parsed:]
		length := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
		if len(head) < frameHeader+length {
			break
		}
		f := frame{http2.FrameType(head[3]), http2.Flags(head[4]), binary.BigEndian.Uint32(head[5:]), head[frameHeader : frameHeader+length]}
		if out, replies, err = g.frame(f, out, replies); err != nil {
			break
		}
		parsed += frameHeader + length
	}
	return parsed, out, replies, err
}

type frame struct {
	kind    http2.FrameType
	flags   http2.Flags
	stream  uint32
	payload []byte
}

func (g *GRPC) frame(f frame, out []byte, replies []Reply) ([]byte, []Reply, error) {
	switch f.kind {
	case http2.FrameData:
		return g.data(f, out), replies, nil
	case http2.FrameHeaders:
		replies, err := g.block(f, replies)
		return out, replies, err
	case http2.FrameSettings, http2.FramePing:
		if !f.flags.Has(http2.FlagPingAck) { // the same bit as that of settings
			out = appendAck(out, f)
		}
	case http2.FrameRSTStream:
		if string(f.payload) == noError {
			return out, replies, nil // the server has sent its reply before it has processed the end of the request
		}
		delete(g.streams, f.stream)
		replies = append(replies, Reply{f.stream, Failed, fmt.Sprintf("RST_STREAM %x", f.payload)})
	case http2.FrameGoAway:
		return out, replies, fmt.Errorf("GOAWAY: %w: %q", errClosed, f.payload)
	case http2.FrameContinuation, http2.FramePushPromise:
		return out, replies, fmt.Errorf("%w: unexpected frame %v", errReply, f.kind)
	}
	return out, replies, nil
}

func appendAck(out []byte, f frame) []byte {
	payload := f.payload
	if f.kind == http2.FrameSettings {
		payload = nil
	}
	return append(appendFrame(out, f.kind, http2.FlagPingAck, 0, len(payload)), payload...)
}

// data notes the outcome in a message, and returns its bytes to the window of the connection from time to time.
func (g *GRPC) data(f frame, out []byte) []byte {
	if len(f.payload) >= 7 && f.payload[5] == 1<<3 && f.payload[6] == 1 {
		g.streams[f.stream] = Admitted
	} else if len(f.payload) > 0 {
		g.streams[f.stream] = Refused
	}
	if g.taken += uint32(len(f.payload)); g.taken >= bigWindow/2 {
		out, g.taken = appendWindow(out, g.taken), 0
	}
	return out
}

// block decodes headers or trailers. Trailers end a reply.
func (g *GRPC) block(f frame, replies []Reply) ([]Reply, error) {
	g.fields = replyFields{}
	if !f.flags.Has(http2.FlagHeadersEndHeaders) || f.flags.Has(http2.FlagHeadersPadded|http2.FlagHeadersPriority) {
		return replies, fmt.Errorf("%w: unsupported flags %x of a header block", errReply, f.flags)
	}
	if _, err := g.decoder.Write(f.payload); err != nil {
		return replies, fmt.Errorf("%w: %w", errReply, err)
	}
	if err := g.decoder.Close(); err != nil {
		return replies, fmt.Errorf("%w: %w", errReply, err)
	}
	if !f.flags.Has(http2.FlagHeadersEndStream) {
		return replies, nil
	}
	outcome, found := g.streams[f.stream]
	delete(g.streams, f.stream)
	if g.fields.status != "0" || !found {
		text := fmt.Sprintf("HTTP status %q, grpc-status %q: %s", g.fields.httpStatus, g.fields.status, strings.Clone(g.fields.message))
		return append(replies, Reply{f.stream, Failed, text}), nil
	}
	return append(replies, Reply{Request: f.stream, Outcome: outcome}), nil
}

func (r *replyFields) add(field hpack.HeaderField) {
	switch field.Name {
	case ":status":
		r.httpStatus = field.Value
	case "grpc-status":
		r.status = field.Value
	case "grpc-message":
		r.message = field.Value
	}
}
