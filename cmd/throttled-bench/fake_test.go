package main

import (
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttledhq/throttled/resp"
)

// Replies of a fake server. The replies admits and denies are those of a limiter.
const (
	admits = "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n"
	denies = "*5\r\n:1\r\n:16\r\n:0\r\n:2\r\n:32\r\n"
	closes = ""  // close the connection without a reply
	silent = " " // no reply
)

// fake is a server with replies defined by the test.
type fake struct {
	addr   string
	answer func(number int, args []string) string

	mu       sync.Mutex // held while a request is answered, so that a blocked answer stalls all connections
	requests int
}

// newFake starts a fake on a free TCP port or on a Unix socket. It is closed when the test ends.
func newFake(t *testing.T, network string, answer func(number int, args []string) string) *fake {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "fake.sock")
	}
	listener, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{addr: listener.Addr().String(), answer: answer}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { f.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	return f
}

func (f *fake) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	r := resp.NewReader(resp.Limits{Args: 100, Bulk: 1 << 20, Inline: 1 << 16, Query: 1 << 21})
	for {
		if _, err := r.Fill(conn); err != nil {
			return
		}
		var out strings.Builder
		for {
			args, err := r.Next()
			if err != nil {
				return
			}
			if args == nil {
				break
			}
			reply := f.reply(args)
			if reply == closes {
				return
			}
			if reply != silent {
				out.WriteString(reply)
			}
		}
		if _, err := conn.Write([]byte(out.String())); err != nil {
			return
		}
	}
}

func (f *fake) reply(args [][]byte) string {
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = string(a)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	return f.answer(f.requests, words)
}

func (f *fake) asked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests
}

// limiter answers like a limiter that admits every request.
func limiter(int, []string) string { return admits }

// stall returns the function that answers the requests of a fake. It delays one reply by
// stallTime: the reply to the request whose number is the argument at. Requests that arrive
// during the delay are answered after it.
func stall(at int) func(int, []string) string {
	return func(number int, _ []string) string {
		if number == at {
			<-time.After(stallTime)
		}
		return admits
	}
}

// stallTime is longer than scheduling delays on a busy machine.
const stallTime = 500 * time.Millisecond
