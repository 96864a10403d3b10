package server

import (
	"io"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/options"
)

// TestUnsentReplies floods the server over a connection that reads nothing. The kernel must store few replies, also if the
// buffers of the sockets have their default size.
func TestUnsentReplies(t *testing.T) {
	t.Parallel()
	s := start(t, func(o *options.Options) { withPassword(o); o.CommandTimeout = 0 })
	conn := s.connect()
	flood := strings.Repeat(ping, 1<<20/len(ping))
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for err := error(nil); err == nil; {
			_, err = io.WriteString(conn, flood)
		}
	}()
	if !eventually(func() bool { return s.writing() != nil }) {
		t.Fatal("no write waits for the client")
	}
	if written := s.stats.netOut.Load(); written > 1<<20 {
		t.Errorf("the kernel has taken %d bytes of replies, want at most 1 MiB", written)
	}
	_ = conn.Close()
	<-stopped
}
