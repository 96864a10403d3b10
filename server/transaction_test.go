package server

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttledhq/throttled/buckets"
)

// TestExecIsAlone charges a key from many connections while transactions peek at it, charge it, and
// peek again. No other charge may appear within a transaction.
func TestExecIsAlone(t *testing.T) {
	t.Parallel()
	table := buckets.New(buckets.Config{Clock: newTestClock().read, Shards: 8})
	s := setup{engine: table}.start(t)
	const limit, rounds = "1000000", 300
	charge := request("CL.THROTTLE", "k", limit, "1", "1")
	peek := request("CL.THROTTLE", "k", limit, "1", "1", "0")

	stop := make(chan struct{})
	var others, transactions sync.WaitGroup
	for range 3 {
		p := s.dial()
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := io.WriteString(p.Conn, strings.Repeat(charge, 70)); err != nil {
					return
				}
				for range 70 {
					if _, err := readValue(p.in); err != nil {
						t.Errorf("read the reply to a charge: %v", err)
						return
					}
				}
			}
		})
	}
	for range 3 {
		p := s.dial()
		transactions.Go(func() {
			for range rounds {
				if _, err := io.WriteString(p.Conn, request("MULTI")+peek+charge+request("PTTL", "k")+peek+request("EXEC")); err != nil {
					t.Errorf("write a transaction: %v", err)
					return
				}
				var last value
				for range 6 {
					var err error
					if last, err = readValue(p.in); err != nil {
						t.Errorf("read the replies to a transaction: %v", err)
						return
					}
				}
				before, after := last.list[0].list[2].int(), last.list[3].list[2].int()
				if before-after != 1 || last.list[1].list[2].int() != after || last.list[2].int() != last.list[3].list[4].int()*1000 {
					t.Errorf("other charges were made within EXEC, which returned %s", last)
				}
			}
		})
	}
	transactions.Wait()
	close(stop)
	others.Wait()
}

// TestDeletingSeveralKeysIsExclusive checks that no group of limits can be charged between the
// deletions of two keys of one command.
func TestDeletingSeveralKeysIsExclusive(t *testing.T) {
	e := &guarded{Engine: buckets.New(buckets.Config{Shards: 8})}
	s := setup{engine: e}.start(t)
	e.srv.Store(s.Server)
	p := s.dial()
	for _, tt := range []struct {
		command   string
		exclusive []bool
	}{
		{"DEL a", []bool{false}},
		{"DEL a b", []bool{true, true}},
		{"UNLINK a b", []bool{true, true}},
		{"FLUSHALL", []bool{true}},
		{"FLUSHDB ASYNC", []bool{true}},
	} {
		reply := p.ask(strings.Fields(tt.command)...)
		if exclusive := e.noted(); reply.kind == '-' || !slices.Equal(exclusive, tt.exclusive) {
			t.Errorf("%s: reply %s; for each deletion, whether the exec lock was held for writing: %v; want true unless one key is deleted", tt.command, reply, exclusive)
		}
	}
	p.send(request("MULTI") + request("DEL", "a") + request("EXEC"))
	p.expect("+OK\r\n+QUEUED\r\n*1\r\n:0\r\n")
	if exclusive := e.noted(); !slices.Equal(exclusive, []bool{true}) {
		t.Errorf("DEL in a transaction: for each deletion, whether the exec lock was held for writing: %v, want only true", exclusive)
	}
}

// TestWatchedSteps charges a key from several connections. Each charge is made in a transaction, after WATCH and a
// peek. A successful charge must start from the state that the peek returned.
func TestWatchedSteps(t *testing.T) {
	t.Parallel()
	s, _ := startFrozen(t, nil)
	const clients, rounds = 4, 200
	call := []string{"CL.THROTTLE", "k", "1000000", "1", "1"}
	through := make(chan int64, clients)
	for range clients {
		p := s.dial()
		go func() {
			n := int64(0)
			defer func() { through <- n }()
			for range rounds {
				_, _ = io.WriteString(p.Conn, request("WATCH", "k")+request(append(call, "0")...)+request("MULTI")+request(call...)+request("EXEC"))
				var got [5]value
				for i := range got {
					var err error
					if got[i], err = readValue(p.in); err != nil {
						t.Errorf("read a reply: %v", err)
						return
					}
				}
				if got[4].null {
					continue
				}
				n++
				if saw, left := got[1].list[2].int(), got[4].list[0].list[2].int(); left != saw-1 {
					t.Errorf("%d units were left before the charge, and %d after it; want one less", saw, left)
				}
			}
		}()
	}
	total := int64(0)
	for range clients {
		total += <-through
	}
	left := s.dial().ask(append(call, "0")...).list[2].int()
	if charged := 1_000_001 - left; charged != total || total == 0 {
		t.Errorf("%d charges succeeded, but %d units are used; want the same number, above 0", total, charged)
	}
}

// TestWatch modifies a watched key in every way, and runs commands that do not modify it. EXEC must run the queued
// commands if the key has not been modified, and otherwise none of them.
func TestWatch(t *testing.T) {
	t.Parallel()
	s, clock := startFrozen(t, nil)
	f := func(runs bool, between func(own, other *peer)) {
		t.Helper()
		own, other := s.dial(), s.dial()
		other.do("+OK\r\n", "FLUSHALL")
		other.do(five(0, 1, 0, -1, 60), "CL.THROTTLE", "k", "0", "1", "60")
		own.do("+OK\r\n", "WATCH", "absent", "k")
		between(own, other)
		own.ask("MULTI")
		own.do("+QUEUED\r\n", "PING")
		want := "*1\r\n+PONG\r\n"
		if !runs {
			want = "*-1\r\n"
		}
		own.do(want, "EXEC")
		own.do("+OK\r\n", "MULTI")
		own.do("*0\r\n", "EXEC")
	}
	throttle := func(p *peer, params ...string) { p.ask(append([]string{"CL.THROTTLE"}, params...)...) }
	f(true, func(_, _ *peer) {})
	f(true, func(_, other *peer) { throttle(other, "k", "0", "1", "60") })
	f(true, func(_, other *peer) { throttle(other, "k", "9", "1", "60", "0") })
	f(true, func(_, other *peer) { throttle(other, "other", "0", "1", "60") })
	f(true, func(own, other *peer) { other.ask("DEL", "k"); own.do("+OK\r\n", "UNWATCH") })
	f(true, func(own, other *peer) { other.ask("DEL", "k"); own.do("+RESET\r\n", "RESET") })
	f(true, func(own, other *peer) { other.ask("DEL", "k"); own.ask("MULTI"); own.do("+OK\r\n", "DISCARD") })
	f(false, func(_, other *peer) { throttle(other, "k", "9", "1", "60") })
	f(false, func(own, _ *peer) { throttle(own, "k", "9", "1", "60") })
	f(false, func(_, other *peer) { throttle(other, "k", "9", "1", "30", "-1") })
	f(false, func(_, other *peer) { throttle(other, "absent", "0", "1", "60") })
	f(false, func(_, other *peer) { other.ask("DEL", "k") })
	f(false, func(_, other *peer) { other.ask("FLUSHALL") })
	f(false, func(_, other *peer) { other.ask("DEL", "k"); throttle(other, "k", "0", "1", "61") })
	f(false, func(own, _ *peer) { clock.advance(time.Hour); own.do("+PONG\r\n", "PING") })
	f(false, func(own, other *peer) {
		own.do("+OK\r\n", "MULTI")
		own.do(failure(errWatchInMulti), "WATCH", "x")
		own.do("+OK\r\n", "DISCARD")
		own.do("+OK\r\n", "WATCH", "k")
		other.ask("DEL", "k")
	})
}

// TestTransactionsAreBounded exceeds the limits of queued commands, watched keys and replies.
func TestTransactionsAreBounded(t *testing.T) {
	s := start(t, nil)
	s.dial().ask("CL.THROTTLE", "k", "1", "1", "3600")
	before := liveHeap()

	// Queued commands.
	p := s.dial()
	p.do("+OK\r\n", "MULTI")
	long := strings.Repeat("x", 300<<10)
	for range 3 {
		p.do("+QUEUED\r\n", "ECHO", long)
	}
	p.do(failure(errQueueTooLong), "ECHO", long)
	p.do(failure(errExecAbort), "EXEC")
	p.do("+PONG\r\n", "PING")

	// Watched keys.
	for i := range 3 {
		p.do("+OK\r\n", "WATCH", fmt.Sprint(i, long))
	}
	p.do(failure(errWatchTooLong), "WATCH", long)
	p.do("+OK\r\n", "UNWATCH")
	go func() { _, _ = io.WriteString(p.Conn, strings.Repeat(request("WATCH", "k"), 100_000)) }()
	for range 100_000 {
		p.read()
	}
	if grown := liveHeap() - before; grown > 6<<20 {
		t.Errorf("watched keys take %d bytes, want at most 6 MiB", grown)
	}
	p.do("+OK\r\n", "UNWATCH")
	p.do("+OK\r\n", "WATCH", long)

	// Replies.
	p = s.dial()
	p.do("+OK\r\n", "MULTI")
	const n = 5000
	p.send(strings.Repeat(request("COMMAND"), n))
	p.expect(strings.Repeat("+QUEUED\r\n", n))
	p.send(request("EXEC"))
	p.closed()
	if !eventually(func() bool { return liveHeap()-before <= 6<<20 }) {
		t.Errorf("after the transaction, the heap has grown by %d bytes, want at most 6 MiB", liveHeap()-before)
	}
	s.greet()
}

// TestSubscriptionsAreBounded exceeds the limits on the length of a name and on the number of subscriptions.
func TestSubscriptionsAreBounded(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	p := s.dial()
	if got := p.ask("SUBSCRIBE", strings.Repeat("c", maxName)); got.list[2].int() != 1 {
		t.Errorf("SUBSCRIBE to the longest allowed name: the reply is %s, want 1 subscription", got)
	}
	p.do(failure(errChannelName), "SUBSCRIBE", strings.Repeat("c", maxName+1))
	for i := 2; i <= maxSubscriptions; i++ {
		if got := p.ask("SUBSCRIBE", fmt.Sprint(i)); got.list[2].int() != int64(i) {
			t.Fatalf("SUBSCRIBE to one more channel: the reply is %s, want one more subscription", got)
		}
	}
	p.do(failure(errManyChannels), "SUBSCRIBE", "one more")
	p.ask("SUBSCRIBE", "7") // already subscribed
	for i := range maxSubscriptions {
		p.ask("PSUBSCRIBE", fmt.Sprint(i))
	}
	p.do(failure(errManyChannels), "PSUBSCRIBE", "one more")
	p.fails("ERR Can't execute 'info'", "INFO")
	list := s.dial().ask("CLIENT", "LIST", "TYPE", "pubsub").text
	if want := fmt.Sprintf(" sub=%d psub=%d ", maxSubscriptions, maxSubscriptions); !strings.Contains(list, want) {
		t.Errorf("CLIENT LIST shows %q, want %q", list, want)
	}
	p.do("+RESET\r\n", "RESET")
	p.do("+PONG\r\n", "PING")
}
