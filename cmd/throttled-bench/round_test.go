package main

import (
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"
)

// runBench parses the given flags and targets, and measures the targets.
func runBench(ctx context.Context, t *testing.T, args ...string) (*results, error) {
	t.Helper()
	c, err := parseFlags(args, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return measureAll(ctx, c, io.Discard)
}

// total measures one target with the given flags, and returns the result of all rounds.
func total(t *testing.T, args ...string) *result {
	t.Helper()
	r, err := runBench(t.Context(), t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return r.totals[0]
}

// TestExactRequests checks that exactly the requested number of requests is sent and
// counted, for different batches, in the closed and in the open loop.
func TestExactRequests(t *testing.T) {
	f := func(want int, flags ...string) {
		t.Helper()
		for _, rate := range []string{"0", "100000"} {
			server := newFake(t, "tcp", limiter)
			got := total(t, append(flags, "-warmup", "0", "-rate", rate, server.addr)...)
			if server.asked() != want || got.values[requests] != float64(want) || got.latency.TotalCount() != int64(want) {
				t.Errorf("%q, rate %s: %d requests sent, %v counted, %d latencies; want %d of each", flags, rate, server.asked(), got.values[requests], got.latency.TotalCount(), want)
			}
		}
	}
	f(1, "-requests", "1")
	f(1000, "-requests", "1000", "-conns", "7")
	f(1000, "-requests", "1000", "-conns", "3", "-depth", "16")
	f(100, "-requests", "100", "-conns", "2", "-depth", "1000")
	f(3001, "-requests", "3001", "-conns", "1", "-depth", "50", "-threads", "4")
}

// TestLast checks that the command of -last ends each write, is not counted, and that
// latencies include its reply.
func TestLast(t *testing.T) {
	waits := 0
	server := newFake(t, "tcp", func(_ int, args []string) string {
		if args[0] != "WAIT" {
			return admits
		}
		waits++
		if waits == 3 {
			<-time.After(stallTime)
		}
		return ":1\r\n"
	})
	got := total(t, "-requests", "100", "-conns", "1", "-depth", "8", "-warmup", "0", "-last", "WAIT 1 0", server.addr)
	if waits != 13 || got.values[requests] != 100 || got.latency.TotalCount() != 100 {
		t.Errorf("%d WAITs sent, %v requests counted, %d latencies; want 13, 100, 100", waits, got.values[requests], got.latency.TotalCount())
	}
	if quick, slow := got.latency.ValueAtPercentile(92), got.latency.ValueAtPercentile(93); quick >= int64(stallTime) || slow < int64(stallTime) {
		t.Errorf("percentiles 92 and 93 are %d and %d ns; want 8 of 100 latencies to include the slow WAIT of %v", quick, slow, stallTime)
	}
}

func TestLastFails(t *testing.T) {
	server := newFake(t, "tcp", func(_ int, args []string) string {
		if args[0] == "WAIT" {
			return "-ERR no\r\n"
		}
		return admits
	})
	if _, err := runBench(t.Context(), t, "-requests", "10", "-last", "WAIT 1 0", server.addr); err == nil || !strings.Contains(err.Error(), "ERR no") {
		t.Errorf("error %v; want the error reply of the target in it", err)
	}
}

// TestLastChecksTheNumberOfReplies checks that a second reply to the command of -last is an
// error.
func TestLastChecksTheNumberOfReplies(t *testing.T) {
	server := newFake(t, "tcp", func(_ int, args []string) string {
		if args[0] == "WAIT" {
			return ":1\r\n:1\r\n"
		}
		return admits
	})
	args := []string{"-requests", "100", "-conns", "1", "-warmup", "0", "-last", "WAIT 1 0", server.addr}
	if _, err := runBench(t.Context(), t, args...); !errors.Is(err, errExtra) {
		t.Errorf("two replies to WAIT: error %v; want %v", err, errExtra)
	}
}

// TestWarmupIsNotCounted checks that requests during the warm-up are sent but not measured.
func TestWarmupIsNotCounted(t *testing.T) {
	for _, rate := range []string{"0", "2000"} {
		server := newFake(t, "tcp", limiter)
		got := total(t, "-requests", "500", "-warmup", "250ms", "-rate", rate, "-conns", "3", server.addr)
		if got.values[requests] != 500 || server.asked() <= 500 {
			t.Errorf("rate %s: %v of %d requests counted; want 500 counted, and more than 500 sent", rate, got.values[requests], server.asked())
		}
		if rate == "2000" && server.asked() != 1000 {
			t.Errorf("%d requests sent; want 500 in the warm-up and 500 after it", server.asked())
		}
	}
}

// TestOpenLoopKeepsTheRate checks that the time and the number of requests match the schedule.
func TestOpenLoopKeepsTheRate(t *testing.T) {
	server := newFake(t, "unix", limiter)
	got := total(t, "-rate", "2000", "-duration", "500ms", "-warmup", "0", "-conns", "5", "-depth", "2", server.addr)
	v := got.values
	if v[requests] != 1000 || v[seconds] < 0.49 || v[seconds] > 10 || v[targetRate] != 2000 || v[unsentRequests] != 0 {
		t.Errorf("%v requests in %v s, %v unsent; want 1000 in 0.5 s (10 s on a busy machine), none unsent", v[requests], v[seconds], v[unsentRequests])
	}
}

// TestStall measures targets that stall once. In the open loop, the latency of each request
// that is due during the stall must include the rest of the stall. In the closed loop, the
// stall must be included in the maximum but not in p99, because few requests are in flight.
func TestStall(t *testing.T) {
	const us = float64(stallTime / time.Microsecond)
	server := newFake(t, "tcp", stall(500))
	open := total(t, "-rate", "400", "-duration", "5s", "-warmup", "0", "-conns", "4", server.addr).values
	// One request in ten was due during the stall, and waited for half of it on average.
	if open[longestWait] < 0.95*us || open[p99] < 0.7*us || open[p95] < 0.3*us {
		t.Errorf("open loop: p95 %v, p99 %v, max %v us; want at least 0.3, 0.7 and 0.95 times the stall of %v us", open[p95], open[p99], open[longestWait], us)
	}
	if open[p50] > 0.5*us || open[longestWait] > 10*us {
		t.Errorf("open loop: p50 %v, max %v us; want at most 0.5 and 10 times the stall", open[p50], open[longestWait])
	}
	server = newFake(t, "tcp", stall(500))
	closed := total(t, "-requests", "2000", "-warmup", "0", "-conns", "4", server.addr).values
	if closed[longestWait] < 0.95*us || closed[p99] > 0.5*us {
		t.Errorf("closed loop: p99 %v, max %v us; want the stall in max only", closed[p99], closed[longestWait])
	}
}

// TestOverload checks that an open loop reports a target that cannot keep up.
func TestOverload(t *testing.T) {
	slow := newFake(t, "tcp", func(number int, _ []string) string {
		if number%10 == 0 {
			<-time.After(5 * time.Millisecond) // at most 2000 per second
		}
		return admits
	})
	got := total(t, "-rate", "4000", "-duration", "300ms", "-warmup", "0", "-conns", "2", slow.addr)
	if got.values[requests] != 1200 || got.values[perSecond] > 2000 || got.values[longestWait] < 200_000 {
		t.Errorf("%v requests, %v per second, max %v us; want 1200, at most 2000, at least 200000", got.values[requests], got.values[perSecond], got.values[longestWait])
	}
	if !strings.Contains(strings.Join(got.notes, "\n"), "did not keep up") {
		t.Errorf("the notes are %q; want \"did not keep up\" in them", got.notes)
	}
}

// TestDenied checks that the share of denials is computed from the replies, and that each
// key of -denied is exhausted before the round.
func TestDenied(t *testing.T) {
	seen := map[string]int{}
	server := newFake(t, "tcp", func(_ int, args []string) string {
		if strings.Join(args[2:], " ") != exhaustedLimit {
			return admits
		}
		if seen[args[1]]++; seen[args[1]] == 1 {
			return admits
		}
		return denies
	})
	got := total(t, "-denied", "0.3", "-requests", "20000", "-warmup", "0", "-keys", "700", "-depth", "20", "-conns", "4", server.addr)
	if share := got.values[deniedShare]; math.Abs(share-0.3) > 0.02 || len(seen) != 700 || len(got.failures) != 0 {
		t.Errorf("share of denials %v, %d exhausted keys, failures %v; want 0.3, 700, none", share, len(seen), got.failures)
	}
}

func TestErrorsAreNoSuccesses(t *testing.T) {
	for _, rate := range []string{"0", "50000"} {
		server := newFake(t, "tcp", func(number int, _ []string) string {
			switch number % 10 {
			case 0:
				return "-ERR number ten\r\n"
			case 5:
				return "-OOM full\r\n"
			}
			return admits
		})
		got := total(t, "-requests", "2000", "-warmup", "0", "-conns", "3", "-depth", "7", "-rate", rate, server.addr)
		v := got.values
		if v[requests] != 2000 || v[errorReplies] != 400 || v[errorShare] != 0.2 || got.good != 1600 || got.latency.TotalCount() != 1600 {
			t.Errorf("rate %s: %v replies, %v errors, %v good replies, %d latencies; want 2000, 400, 1600, 1600", rate, v[requests], v[errorReplies], got.good, got.latency.TotalCount())
		}
		if want := 1600 / v[seconds]; math.Abs(v[perSecond]-want) > 1 {
			t.Errorf("rate %s: %v good replies per second; want %v", rate, v[perSecond], want)
		}
		for _, want := range []failure{{"ERR", 200, "ERR number ten"}, {"OOM", 200, "OOM full"}} {
			if len(got.failures) != 2 || got.failures[0] != want && got.failures[1] != want {
				t.Errorf("rate %s: failures %+v; want %+v in them", rate, got.failures, want)
			}
		}
	}
}

// TestRunFails checks the errors that end a run, in the closed and in the open loop.
func TestRunFails(t *testing.T) {
	f := func(want string, answer func(int, []string) string, flags ...string) {
		t.Helper()
		for _, rate := range []string{"0", "20000"} {
			server := newFake(t, "tcp", answer)
			args := append(flags, "-duration", "10m", "-warmup", "0", "-conns", "3", "-rate", rate, server.addr)
			begun := time.Now()
			_, err := runBench(t.Context(), t, args...)
			if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), server.addr) {
				t.Errorf("rate %s: error %v; want one that contains %q", rate, err, want)
			}
			if took := time.Since(begun); took > time.Minute {
				t.Errorf("rate %s: the run took %v; want less than a minute until the error %q", rate, took, want)
			}
		}
	}
	from100 := func(reply string) func(int, []string) string {
		return func(number int, _ []string) string {
			if number < 100 {
				return admits
			}
			return reply
		}
	}
	f("connection lost", from100(closes))
	f("not speak the Redis protocol", from100("HTTP/1.1 400 Bad Request\r\n"))
	f("not speak the Redis protocol", from100("+"+strings.Repeat("x", 2*inputSize)))
	f("longer than -timeout", from100(silent), "-timeout", "2s")
	f("more replies than", from100(admits+admits), "-conns", "1")
	f("exhaust the keys of -denied: the target replies \"ERR unknown command\"", func(int, []string) string { return "-ERR unknown command\r\n" }, "-denied", "0.1")
}

func TestNoListener(t *testing.T) {
	server := newFake(t, "tcp", limiter)
	if _, err := runBench(t.Context(), t, "-requests", "1", "-warmup", "0", server.addr, "127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1: dial") {
		t.Errorf("a target without a listener: error %v; want the target and \"dial\" in it", err)
	}
}

func TestLogIn(t *testing.T) {
	var got []string
	server := newFake(t, "tcp", func(_ int, args []string) string {
		if args[0] != "AUTH" {
			return admits
		}
		if got = args; args[len(args)-1] != "secret" {
			return "-WRONGPASS no\r\n"
		}
		return "+OK\r\n"
	})
	f := func(userinfo, words, want string) {
		t.Helper()
		_, err := runBench(t.Context(), t, "-requests", "1", "-warmup", "0", "-conns", "1", "redis://"+userinfo+"@"+server.addr)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || strings.Join(got, " ") != words {
			t.Errorf("%s: the target received %q, error %v; want %q, error %q", userinfo, got, err, words, want)
		}
	}
	f(":secret", "AUTH secret", "")
	f("ann:secret", "AUTH ann secret", "")
	f("ann:guess", "AUTH ann guess", "WRONGPASS")
}

// TestInterrupt checks that an interrupted run returns the measurements so far.
func TestInterrupt(t *testing.T) {
	for _, rate := range []string{"0", "2000", "1"} {
		ctx, cancel := context.WithCancel(t.Context())
		server := newFake(t, "tcp", func(number int, _ []string) string {
			if number == 300 || rate == "1" {
				cancel()
			}
			return admits
		})
		r, err := runBench(ctx, t, "-duration", "100s", "-warmup", "0", "-rounds", "5", "-rate", rate, server.addr)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.totals[0].values[requests]; !r.interrupted || len(r.rounds) != 1 || int(got) != server.asked() {
			t.Errorf("rate %s: interrupted %v, %d rounds, %v of %d requests counted; want true, 1, all", rate, r.interrupted, len(r.rounds), got, server.asked())
		}
	}
}

func TestInterruptBeforeAnything(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := newFake(t, "tcp", func(int, []string) string {
		cancel()
		return admits
	})
	if _, err := runBench(ctx, t, "-duration", "100s", "-warmup", "100s", server.addr); !errors.Is(err, errNothing) {
		t.Errorf("an interrupt during the warm-up: error %v; want errNothing", err)
	}
}

// TestRoundsAlternate checks the order of the rounds, and that both targets receive the
// same requests.
func TestRoundsAlternate(t *testing.T) {
	var order []string
	keys := map[string]string{}
	answer := func(name string) func(int, []string) string {
		return func(_ int, args []string) string {
			order = append(order, name)
			keys[name] += args[1] + " "
			return admits
		}
	}
	a, b := newFake(t, "tcp", answer("a")), newFake(t, "tcp", answer("b"))
	r, err := runBench(t.Context(), t, "-requests", "2", "-warmup", "0", "-conns", "1", "-rounds", "3", a.addr, b.addr)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, ""); got != "aabbaabbaabb" || keys["a"] != keys["b"] {
		t.Errorf("order of requests %s, keys %s; want aabbaabbaabb and the same keys for a and b", got, keys)
	}
	if len(r.totals) != 2 || r.totals[1].values[requests] != 6 || len(r.rounds) != 6 || r.rounds[3].round != 2 {
		t.Errorf("totals %+v of %d rounds; want 2 totals of 6 rounds, with 6 requests each", r.totals, len(r.rounds))
	}
}

// TestScheduleIsWhole checks that the writes of all links together form the schedule: each
// write of the schedule is due once, in order and at the rate.
func TestScheduleIsWhole(t *testing.T) {
	for _, flags := range [][]string{{"-rate", "1000"}, {"-rate", "333.3", "-depth", "7", "-conns", "3"}, {"-rate", "1e6", "-requests", "999", "-depth", "10"}} {
		c, err := parseFlags(append(flags, "-warmup", "500ms", "-duration", "2s"), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		s := newSchedule(c)
		sent, before, total := map[int64]bool{}, int64(-1), 0
		for m := int64(0); len(sent) < int(s.writes); m++ {
			for link := range c.conns {
				if j := s.index(link, m); j < s.writes {
					if sent[j] || s.due(j) <= before {
						t.Fatalf("%q: write %d is repeated, or its time %d is not after that of the previous write, %d", flags, j, s.due(j), before)
					}
					sent[j], before = true, s.due(j)
					if j >= s.warm {
						total += s.size(j)
					}
				}
			}
		}
		want := c.rate * c.duration.Seconds()
		if c.requests > 0 {
			want = float64(c.requests)
		}
		if math.Abs(float64(total)-want) > float64(c.depth) || c.requests > 0 && total != int(c.requests) {
			t.Errorf("%q: %d requests after the warm-up; want %v", flags, total, want)
		}
	}
}

// TestUnsent checks the number of unsent requests if the last write has fewer requests than
// the other writes.
func TestUnsent(t *testing.T) {
	c, err := parseFlags([]string{"-rate", "1000", "-requests", "25", "-depth", "10", "-conns", "2", "-warmup", "0"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	f := func(want int64, sent ...int64) {
		t.Helper()
		r := &round{config: c, schedule: newSchedule(c)}
		for _, n := range sent {
			l := &link{}
			l.sent.Store(n)
			r.links = append(r.links, l)
		}
		if got := r.unsent(); got != want {
			t.Errorf("writes sent per connection %v: %d requests unsent; want %d", sent, got, want)
		}
	}
	f(25, 0, 0) // the writes have 10, 10 and 5 requests, on connections 0, 1 and 0
	f(15, 1, 0)
	f(5, 1, 1)
	f(10, 2, 0)
	f(0, 2, 1)
}
