package main

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestDueBy(t *testing.T) {
	o := &offered{phases: []phase{{10 * overloadConns, 2 * time.Second}, {overloadConns, 10 * time.Second}}}
	for at, want := range map[time.Duration]int64{
		-time.Second: 0, 0: 0, time.Second: 10, 2 * time.Second: 20, 3 * time.Second: 21, 12 * time.Second: 30, time.Hour: 30,
	} {
		if got := o.dueBy(at); got != want {
			t.Errorf("dueBy(%v) = %d, want %d", at, got, want)
		}
	}
}

func TestDueAt(t *testing.T) {
	o := &offered{phases: []phase{{10 * overloadConns, 2 * time.Second}, {overloadConns, 10 * time.Second}}}
	for n, want := range map[int64]time.Duration{
		0: 100 * time.Millisecond, 9: time.Second, 19: 2 * time.Second, 20: 3 * time.Second, 29: 12 * time.Second, 30: 12 * time.Second,
	} {
		if got := o.dueAt(n); got != want {
			t.Errorf("dueAt(%d) = %v, want %v", n, got, want)
		}
	}
}

// TestReplyCounter divides replies at every byte.
func TestReplyCounter(t *testing.T) {
	const replies = "*5\r\n:0\r\n:5\r\n:5\r\n:-1\r\n:5\r\n-BUSY try again\r\n*5\r\n:1\r\n:5\r\n:5\r\n:5\r\n:5\r\n"
	for at := range len(replies) {
		client, server := net.Pipe()
		go func() {
			_, _ = server.Write([]byte(replies[:at]))
			_, _ = server.Write([]byte(replies[at:]))
		}()
		c := replyCounter{conn: client}
		var decided, busy int64
		for decided+busy < 3 {
			d, b, err := c.next(1)
			if err != nil || d+b != 1 {
				t.Fatalf("divided at %d: next(1) = %d, %d, error %v; want one reply", at, d, b, err)
			}
			decided, busy = decided+d, busy+b
		}
		if decided != 2 || busy != 1 {
			t.Errorf("divided at %d: %d decisions and %d refusals, want 2 and 1", at, decided, busy)
		}
		_ = client.Close()
	}
}

// TestRecovery checks the time until replies are fast again.
func TestRecovery(t *testing.T) {
	o := &offered{phases: []phase{{1, time.Second}, {1, 10 * time.Second}}}
	for at := time.Duration(0); at < 11*time.Second; at += 50 * time.Millisecond {
		latency := time.Millisecond
		if at < 2500*time.Millisecond {
			latency = time.Second
		}
		o.replies = append(o.replies, reply{at, latency, latency / 10})
	}
	if got := o.recovery(5); got != 1500*time.Millisecond {
		t.Errorf("recovery = %v, want 1.5 s", got)
	}
	if got := o.recovery(0.5); got != 10*time.Second {
		t.Errorf("recovery that is never reached = %v, want the rest of the time", got)
	}
	if due, sent := o.p99(o.replies); due != 1000 || sent != 100 {
		t.Errorf("p99 of the first phase = %v ms since due, %v ms since sent, want 1000 and 100", due, sent)
	}
}

// TestOverloader_Results checks the bars of an overload that misses none, and of one that misses all.
func TestOverloader_Results(t *testing.T) {
	const peak, lasting = 1000, 10 * time.Second
	result := func(decided, busy int64, latency time.Duration) *offered {
		o := &offered{phases: []phase{{1, lasting}, {1, overloadAfter}}, decided: make([]atomic.Int64, 2), busy: make([]atomic.Int64, 2), dropped: make([]atomic.Int64, 2)}
		o.decided[0].Store(decided)
		o.busy[0].Store(busy)
		for at := time.Duration(0); at < lasting+overloadAfter; at += 10 * time.Millisecond {
			r := reply{at, latency, latency}
			o.replies, o.refusals = append(o.replies, r), append(o.refusals, r)
		}
		return o
	}
	normal, silent := result(5000, 0, time.Millisecond), result(8000, 0, 5*time.Millisecond)
	silent.refusals = nil
	for _, tt := range []struct {
		name   string
		sheds  bool
		all    *offered
		missed int
	}{
		{"all reached", true, result(8000, 22_000, 5*time.Millisecond), 0},
		{"all missed", true, result(7900, 21_000, 6*time.Millisecond), 5},
		{"without refusals", false, result(7900, 0, 6*time.Millisecond), 2},
		{"without refusals, although required", true, silent, 2},
	} {
		o := &overloader{board: &board{}, overloadRow: overloadRow{sheds: tt.sheds}, lasting: lasting}
		o.showResults(normal, tt.all, peak)
		if o.missed != tt.missed {
			t.Errorf("%s: %d bars are missed, want %d", tt.name, o.missed, tt.missed)
		}
	}
}

func TestOverloaded_Flags(t *testing.T) {
	for text, s := range map[string]settings{
		"follower":  {rows: "follower", overload: time.Minute},
		"-overload": {rows: "leader", overload: time.Second},
	} {
		if err := overloaded(s, &board{}); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v, want one with %q", err, text)
		}
	}
}
