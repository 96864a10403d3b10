package server

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/options"
)

// watched is a connection that closes a channel when the server closes its end.
type watched struct {
	net.Conn
	closed chan struct{}
}

func (c watched) Close() error {
	close(c.closed)
	return c.Conn.Close()
}

// FuzzServer sends arbitrary bytes to a new server, with and without a password. The server must not panic, must close
// the connection after the client has closed it, and must serve the next connection.
func FuzzServer(f *testing.F) {
	for _, row := range protocolRows {
		f.Add([]byte(row.input), row.unauthenticated)
		f.Add([]byte(ping+row.input+ping), row.unauthenticated)
	}
	for _, form := range commandForms {
		f.Add([]byte(request(form.words...)), false)
	}
	for _, form := range throttleForms {
		f.Add([]byte(request(append([]string{"CL.THROTTLE"}, form.words...)...)), false)
	}
	for _, line := range []string{
		"MULTI\r\nCL.THROTTLE k 1 1 1\r\nTTL k\r\nEXEC\r\n",
		"CL.WINDOW k 2 1\r\nCL.WINDOW l 2 1s LOG\r\nCL.WINDOW m 2 1m 1 BUCKETS 3 MS\r\nCL.WINDOW n 2 1 FIXED\r\nSCAN 0 TYPE window\r\n",
		"CL.BUCKET k 4 2 1 -1\r\nCL.LEAKY l 4 2 1 9 MS\r\nCL.LEAKY k 4 2 1\r\nOBJECT ENCODING k\r\n",
		"CL.ALL 1 THROTTLE a 1 1 1 WINDOW b 1 1h LOG BUCKET c 1 1 1ms LEAKY d 1 1 1d MS\r\nCL.ALL 1 WINDOW a 1 1 WINDOW a 1 1\r\n",
		"MULTI\r\nCL.ALL 1" + strings.Repeat(" WINDOW a 1 1", 33) + "\r\nEXEC\r\nCOMMAND GETKEYS CL.ALL 1 WINDOW a 1 1 BUCKETS\r\n",
		"WATCH k\r\nMULTI\r\nDEL k\r\nEXEC\r\nUNWATCH\r\n",
		"HELLO 3\r\nCLIENT TRACKING ON\r\nTTL k\r\nMULTI\r\nTTL k\r\nEXEC\r\n",
		"MONITOR\r\nPING\r\nRESET\r\n",
		"SUBSCRIBE a b\r\nPING\r\nUNSUBSCRIBE\r\n",
		"CLIENT REPLY SKIP\r\nMONITOR\r\nCLIENT REPLY ON\r\n",
		"COMMAND DOCS\r\nINFO everything\r\nSLOWLOG GET\r\nLATENCY HISTOGRAM\r\n",
		"CONFIG SET maxclients 1 requirepass x\r\nCONFIG GET *\r\nSHUTDOWN\r\n",
		"AUTH secret\r\nCLIENT LIST\r\nCLIENT KILL TYPE normal SKIPME no\r\n",
		"SCAN 0 MATCH * COUNT 10\r\nKEYS *\r\nOBJECT ENCODING k\r\nMEMORY USAGE k\r\n",
	} {
		f.Add([]byte(line), false)
		f.Add([]byte(line), true)
	}
	f.Fuzz(func(t *testing.T, input []byte, unauthenticated bool) {
		s := setup{engine: buckets.New(buckets.Config{Shards: 1}), options: func(o *options.Options) {
			if unauthenticated {
				withPassword(o)
			}
			o.SlowlogLogSlowerThan, o.LatencyMonitorThreshold = 0, time.Millisecond
		}}.build(t)
		defer (&testServer{Server: s}).end()
		ln := newPipes()
		go func() { _ = s.Serve(ln) }()

		near, far := net.Pipe()
		server := watched{far, make(chan struct{})}
		ln.conns <- server
		go func() { _, _ = io.Copy(io.Discard, near) }()
		_ = near.SetWriteDeadline(time.Now().Add(patience))
		_, err := near.Write(input)
		if isTimeout(err) {
			t.Fatal("the server stopped reading")
		}
		_ = near.Close()
		select {
		case <-server.closed:
		case <-time.After(patience):
			t.Fatal("the server does not close the connection")
		}
		if n := s.stats.panics.Load(); n != 0 {
			t.Fatalf("%d handlers panicked, want 0", n)
		}

		conn := ln.connect()
		_ = conn.SetDeadline(time.Now().Add(patience))
		next := newPeer(t, conn)
		next.send(ping)
		if got := next.read().text; got != "PONG" && !strings.HasPrefix(got, "NOAUTH") {
			t.Fatalf("the next connection got %q, want PONG or NOAUTH", got)
		}
	})
}
