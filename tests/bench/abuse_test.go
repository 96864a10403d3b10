package main

import (
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestAbuses checks that the rows are in order and unique, since the flag -rows and docs/security.md name them.
func TestAbuses(t *testing.T) {
	if !slices.IsSortedFunc(abuses, func(a, b abuse) int { return strings.Compare(a.row, b.row) }) {
		t.Error("the rows are not in order")
	}
	if n := len(slices.CompactFunc(slices.Clone(abuses), func(a, b abuse) bool { return a.row == b.row })); n != len(abuses) {
		t.Errorf("%d of %d rows have unique names", n, len(abuses))
	}
	a := &abuser{settings: settings{rows: "F99"}, board: &board{}}
	if err := a.runRows(); err == nil || !strings.Contains(err.Error(), "F99") {
		t.Errorf("a row that does not exist: error %v, want one that names it", err)
	}
}

func TestLargestUnsent(t *testing.T) {
	const list = "id=1 addr=127.0.0.1:5 rbs=100 rbp=0 omem=20 tot-mem=9000 user=default\n" +
		"id=2 addr=127.0.0.1:6 rbs=8192 omem=300 tot-mem=20000 user=omem=7\n"
	if got := largestUnsent(list); got != 8492 {
		t.Errorf("got %d, want 8492", got)
	}
	if got := largestUnsent(""); got != 0 {
		t.Errorf("empty list: got %d, want 0", got)
	}
}

// TestPaced checks that calls have consecutive numbers, keep the rate, and stop.
func TestPaced(t *testing.T) {
	const calls = 50
	var mu sync.Mutex
	var numbers []int64
	stop := make(chan struct{})
	begin := time.Now()
	err := paced(500, 4, stop, func(i int64) error {
		mu.Lock()
		defer mu.Unlock()
		if numbers = append(numbers, i); len(numbers) == calls {
			close(stop)
		}
		return nil
	})
	if took := time.Since(begin); err != nil || took < 95*time.Millisecond {
		t.Errorf("%d calls at 500 per second took %v, want about 100 ms; error: %v", calls, took, err)
	}
	slices.Sort(numbers)
	for i, n := range numbers {
		if int64(i) != n {
			t.Fatalf("the numbers are %v, want consecutive ones", numbers)
		}
	}
	failure := errors.New("failure")
	if err := paced(1e6, 2, make(chan struct{}), func(int64) error { return failure }); !errors.Is(err, failure) {
		t.Errorf("a call that fails: error %v, want its error", err)
	}
}

func TestRaise(t *testing.T) {
	var most atomic.Int64
	for _, n := range []int64{3, 1, 7, 5} {
		raise(&most, n)
	}
	if got := most.Load(); got != 7 {
		t.Errorf("got %d, want 7", got)
	}
}

func TestCompareAll(t *testing.T) {
	want := []byte(strings.Repeat("0123456789", 20_000))
	if err := compareAll(strings.NewReader(string(want)), want); err != nil {
		t.Error(err)
	}
	wrong := slices.Clone(want)
	wrong[150_000] = 'x'
	for name, text := range map[string][]byte{"wrong byte": wrong, "short text": want[:100]} {
		if err := compareAll(strings.NewReader(string(text)), want); err == nil {
			t.Errorf("%s: no error, want one", name)
		}
	}
}

// TestDrip checks that the time ends when the server replies, and when it closes the connection.
func TestDrip(t *testing.T) {
	for name, react := range map[string]func(c net.Conn){
		"reply":  func(c net.Conn) { _, _ = c.Write([]byte("+")) },
		"closed": func(c net.Conn) { _ = c.Close() },
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1))
			react(c)
		}()
		if took, err := drip(ln.Addr().String(), 0, strings.Repeat("x", 1000), make(chan struct{})); err != nil || took > replyPatience {
			t.Errorf("%s: took %v, error %v", name, took, err)
		}
		_ = ln.Close()
	}
}

// TestClientHello checks that the text is the first message of a handshake.
func TestClientHello(t *testing.T) {
	hello, err := clientHello(&tls.Config{InsecureSkipVerify: true})
	if err != nil || len(hello) < 6 || hello[0] != 22 || hello[5] != 1 {
		t.Errorf("got %x, error %v; want a record of type 22 with a message of type 1", hello, err)
	}
}

// TestVictim starts a server for the cheap rows: resources, passwords, and growth.
func TestVictim(t *testing.T) {
	t.Chdir(repository)
	err := withPrograms(func(server string, g generator) error {
		b := &board{}
		a := &abuser{board: b, load: g, server: server, binary: []string{server}}
		return a.withVictim(nil, func(v *victim) error {
			await, err := v.arrivals()
			if err != nil {
				return err
			}
			const held = 50
			return withIdle(v.addr, held, func(h *idleHolder) error {
				if err := await(held); err != nil {
					return err
				}
				now, err := v.footprint()
				if now.files < v.base.files+held-10 || now.goroutines < v.base.goroutines+held-10 {
					t.Errorf("with %d connections: %+v, want more than %+v", held, now, v.base)
				}
				if err := errors.Join(err, v.setPassword(abusePassword)); err != nil {
					return err
				}
				_, err = v.command("PING")
				n, guessErr := guessUntilClosed(v.addr)
				if n != mostPerConn {
					t.Errorf("a connection can guess %d passwords, want %d", n, mostPerConn)
				}
				return errors.Join(err, guessErr)
			})
		})
	})
	if err != nil {
		t.Error(err)
	}
}
