package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// The load of TestProcess_Overload. The limit is so high that no command is refused because of it, and nothing is restored
// during the test.
const (
	flooders     = 16
	floodRound   = 20000     // commands that a client sends before it awaits all replies
	floodBurst   = 2500000   // maximum number of commands of a client
	flooderBytes = 512 << 10 // maximum memory of a client
)

// flooder sends commands without regard to replies, and counts the replies.
type flooder struct {
	conn          net.Conn
	in            *bufio.Reader
	key           string
	decided, busy int
}

func dialFlooder(t *testing.T, addr, key string) *flooder {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &flooder{conn: conn, in: bufio.NewReader(conn), key: key}
}

// round sends commands, and reads their replies at the same time.
func (f *flooder) round() error {
	command := fmt.Sprintf("*5\r\n$11\r\nCL.THROTTLE\r\n$%d\r\n%s\r\n$7\r\n%d\r\n$1\r\n1\r\n$4\r\n3600\r\n", len(f.key), f.key, floodBurst)
	sent := make(chan error, 1)
	go func() {
		_, err := f.conn.Write([]byte(strings.Repeat(command, floodRound)))
		sent <- err
	}()
	for range floodRound {
		if err := f.reply(); err != nil {
			return err
		}
	}
	return <-sent
}

// reply reads a reply, which must be an admission or BUSY.
func (f *flooder) reply() error {
	first, err := f.in.ReadString('\n')
	switch {
	case err != nil:
		return err
	case strings.HasPrefix(first, "-BUSY the server is overloaded: "):
		f.busy++
		return nil
	case first != "*5\r\n":
		return fmt.Errorf("unexpected reply %q", first)
	}
	for i := range 5 {
		element, err := f.in.ReadString('\n')
		if err != nil {
			return err
		}
		if i == 0 && element != ":0\r\n" {
			return fmt.Errorf("a command was refused by its limit: %q", element)
		}
	}
	f.decided++
	return nil
}

// overloadedServer is a server with flooders, and a client that awaits each reply.
type overloadedServer struct {
	*process
	ctx    context.Context
	client *redis.Client
	all    []*flooder
}

// info returns a number in INFO.
func (s *overloadedServer) info(section, name string) int {
	s.t.Helper()
	text, err := s.client.Info(s.ctx, section).Result()
	_, rest, found := strings.Cut(text, "\n"+name)
	if err != nil || !found {
		s.t.Fatalf("INFO %s has no field %s: %q, error %v", section, name, text, err)
	}
	digits, _, _ := strings.Cut(rest, "\r\n")
	n, err := strconv.Atoi(strings.TrimLeft(digits, ":count=")) // errorstat_BUSY:count=1
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// flood makes all flooders send a round, and checks meanwhile that the other client is answered, and the memory of clients.
func (s *overloadedServer) flood() {
	s.t.Helper()
	errs := make([]error, len(s.all))
	var wait sync.WaitGroup
	for i, f := range s.all {
		wait.Go(func() { errs[i] = f.round() })
	}
	done := make(chan struct{})
	go func() { wait.Wait(); close(done) }()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		if got, err := s.client.Do(s.ctx, "CL.THROTTLE", "other", 15, 30, 60, 0).Int64Slice(); err != nil || got[2] != 16 {
			s.t.Fatalf("a client that awaits each reply gets %v, error %v", got, err)
		}
		if got := s.info("memory", "mem_clients_normal"); got > (flooders+2)*flooderBytes {
			s.t.Fatalf("the clients take %d bytes of memory, want at most %d for each of %d", got, flooderBytes, flooders+2)
		}
	}
	for _, err := range errs {
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// TestProcess_Overload sends commands faster than a server answers, until it refuses some. Refused commands must have charged
// nothing, other clients must be served, and the memory of clients must be bounded.
func TestProcess_Overload(t *testing.T) {
	p := newServer(t, "--overload-target", "1", "--client-reply-buffer-limit", "64kb")
	p.waitLog("msg=ready")
	s := &overloadedServer{process: p, ctx: t.Context(), client: redis.NewClient(&redis.Options{Addr: p.addr, ReadTimeout: patience, MaxRetries: -1})}
	t.Cleanup(func() { _ = s.client.Close() })
	for i := range flooders {
		s.all = append(s.all, dialFlooder(t, p.addr, fmt.Sprintf("k%02d", i)))
	}
	for end := time.Now().Add(patience); s.info("stats", "overload_refused") == 0; {
		if time.Now().After(end) || s.all[0].decided > floodBurst-2*floodRound {
			t.Fatal("no command is refused")
		}
		s.flood()
	}
	busy := 0
	for _, f := range s.all {
		busy += f.busy
		got, err := s.client.Do(s.ctx, "CL.THROTTLE", f.key, floodBurst, 1, 3600, 0).Int64Slice()
		if err != nil || got[2] != int64(floodBurst+1-f.decided) {
			t.Errorf("%s has %v after %d decisions and %d refusals, error %v; want %d remaining", f.key, got, f.decided, f.busy, err, floodBurst+1-f.decided)
		}
	}
	if refused, errors := s.info("stats", "overload_refused"), s.info("errorstats", "errorstat_BUSY"); refused != busy || errors != busy {
		t.Errorf("the server has counted %d refusals and %d errors, and the clients %d", refused, errors, busy)
	}
	s.askUntil("overload_waiting_clients:0\r", "INFO", "stats")
}
