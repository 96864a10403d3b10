package gatewaystests

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// admitAll is a limiter that admits each request without reading it, with as little work as possible. The time that it
// adds to requests is that of the calls themselves: of the gateway, the network, and the scheduler.
type admitAll struct {
	serve func(net.Conn) error // serves one connection until it is closed
}

// start returns the port on which the limiter serves until the test ends.
func (a admitAll) start(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return // the listener is closed
			}
			go func() {
				defer func() { _ = c.Close() }()
				if err := a.serve(c); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
					t.Logf("connection of a gateway: %v", err)
				}
			}()
		}
	}()
	return ln.Addr().(*net.TCPAddr).Port
}

var admitAllHTTP = admitAll{func(c net.Conn) error {
	in := bufio.NewReader(c)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) > len("\r\n") {
			continue
		}
		if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
			return err
		}
	}
}}

// admitAllRLS is a rate limit service of Envoy.
var admitAllRLS = admitAll{func(c net.Conn) error {
	in, out := bufio.NewReader(c), bufio.NewWriter(c)
	if _, err := in.Discard(len(http2.ClientPreface)); err != nil {
		return err
	}
	framer := http2.NewFramer(out, in)
	reply := newRLSReply()
	if err := framer.WriteSettings(); err != nil {
		return err
	}
	for {
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
		frame, err := framer.ReadFrame()
		if err == nil {
			err = reply.write(framer, frame)
		}
		if err != nil {
			return err
		}
	}
}}

// rlsReply holds the parts of the reply to each call.
type rlsReply struct{ header, message, trailer []byte }

func newRLSReply() rlsReply {
	return rlsReply{
		header:  headerBlock(":status", "200", "content-type", "application/grpc"),
		message: []byte("\x00\x00\x00\x00\x02\x08\x01"), // overall_code: OK
		trailer: headerBlock("grpc-status", "0"),
	}
}

// headerBlock encodes pairs of names and values without a dynamic table, so that it can be sent repeatedly.
func headerBlock(pairs ...string) []byte {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	encoder.SetMaxDynamicTableSize(0)
	for i := 0; i < len(pairs); i += 2 {
		_ = encoder.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]}) // a bytes.Buffer has no errors
	}
	return block.Bytes()
}

// write answers a frame of the gateway. The end of a stream is the end of a call.
func (r rlsReply) write(framer *http2.Framer, frame http2.Frame) error {
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		if f.IsAck() {
			return nil
		}
		return framer.WriteSettingsAck()
	case *http2.PingFrame:
		return framer.WritePing(true, f.Data)
	case *http2.DataFrame:
		if !f.StreamEnded() {
			return nil
		}
		id := f.StreamID
		return errors.Join(
			framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: r.header, EndHeaders: true}),
			framer.WriteData(id, false, r.message),
			framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: r.trailer, EndHeaders: true, EndStream: true}),
			framer.WriteWindowUpdate(0, max(1, uint32(len(f.Data())))),
		)
	}
	return nil
}
