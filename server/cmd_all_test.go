package server

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

func TestParseAll(t *testing.T) {
	p := parseCommand("CL.ALL 2 throttle a 15 30 60 WINDOW b 100 1h window c 10 1s LOG Window d 100 1h BUCKETS 3 BUCKET e 4 2 1 LEAKY f 10 2 1 ms")
	if p.err != nil || p.unit != time.Millisecond {
		t.Fatalf("got error %v, unit %v, want no error and 1ms", p.err, p.unit)
	}
	want := []limiter.Request{
		{Kind: limiter.Throttle, Limit: limiter.Limit{Max: 16, Interval: 2 * time.Second}},
		{Kind: limiter.SlidingWindow, Limit: limiter.Limit{Max: 100, Interval: time.Hour, Amount: 1}},
		{Kind: limiter.WindowLog, Limit: limiter.Limit{Max: 10, Interval: time.Second, Amount: 77}},
		{Kind: limiter.WindowBuckets, Limit: limiter.Limit{Max: 100, Interval: 20 * time.Minute, Amount: 3}},
		{Kind: limiter.TokenBucket, Limit: limiter.Limit{Max: 4, Interval: time.Second, Amount: 2}},
		{Kind: limiter.LeakyBucket, Limit: limiter.Limit{Max: 10, Interval: time.Second / 2}},
	}
	if len(p.reqs) != len(want) {
		t.Fatalf("got %d requests, want 6", len(p.reqs))
	}
	for i, w := range want {
		got, last := p.reqs[i], i == len(want)-1
		if got.Kind != w.Kind || got.Limit != w.Limit || string(got.Key) != string(rune('a'+i)) || got.Quantity != 2 || got.Linked == last {
			t.Errorf("request %d: got key %q, request %+v; want kind and limit of %+v, keys a to f in order, quantity 2, and Linked except in the last request", i, got.Key, got, w)
		}
	}
	if p := parseCommand("CL.ALL -1 WINDOW a 100 1h"); p.err != nil || p.unit != time.Second || len(p.reqs) != 1 || p.reqs[0].Linked || p.reqs[0].Quantity != -1 {
		t.Errorf("one limit: want one request with quantity -1 that is not linked, got %+v", p)
	}
}

func TestParseAllRefuses(t *testing.T) {
	f := func(want error, rest string) {
		t.Helper()
		if p := parseCommand("CL.ALL " + rest); !errors.Is(p.err, want) {
			t.Errorf("CL.ALL %s: got error %v, want %v", rest, p.err, want)
		}
	}
	text := func(want, rest string) {
		t.Helper()
		f(replyError("ERR "+want), rest)
	}
	const (
		number = "must be a 64-bit integer. It is the first argument of CL.ALL"
		use    = "use THROTTLE, WINDOW, BUCKET or LEAKY"
		modes  = "can be SLIDING, FIXED, LOG or BUCKETS"
		period = "must be a 64-bit integer of at least 1, in seconds or with one of the units ms, s, m, h and d"
	)
	text("invalid quantity 'x': "+number, "x WINDOW a 1 1")
	text("invalid quantity 'MS': "+number, "MS WINDOW a 1 1")
	text("invalid quantity 'WINDOW': "+number, "WINDOW a 1 1 FIXED")
	text("limit 1 of CL.ALL cannot begin with 'NONSENSE': "+use, "1 NONSENSE a 1 1")
	text("limit 1 of CL.ALL cannot begin with '1': "+use, "1 1 WINDOW a 1 1")
	text("limit 1 of CL.ALL cannot begin with 'CL.WINDOW': "+use, "1 CL.WINDOW a 1 1")
	text("limit 1 of CL.ALL cannot begin with 'ALL': "+use, "1 ALL a 1 1")
	text("limit 2 of CL.ALL cannot begin with 'FIXD': "+use+"; the mode of limit 1 of CL.ALL "+modes, "1 WINDOW a 1 1 FIXD")
	text("limit 2 of CL.ALL cannot begin with 'FIXED': "+use, "1 WINDOW a 1 1 SLIDING FIXED")
	text("limit 2 of CL.ALL cannot begin with '1': "+use+"; the mode of limit 1 of CL.ALL "+modes, "1 WINDOW a 1 1 1")
	text("limit 2 of CL.ALL cannot begin with 'FIXED': "+use, "1 BUCKET a 1 1 1 FIXED")
	text("limit 3 of CL.ALL cannot begin with 'FIXED': "+use, "1 WINDOW a 1 1 BUCKET b 1 1 1 FIXED")
	text("limit 1 of CL.ALL (key 'a') needs 4 arguments, but has 3: the syntax is THROTTLE key max_burst count period", "1 THROTTLE a 1 1")
	text("limit 1 of CL.ALL (key 'a') needs 4 arguments, but has 3: the syntax is THROTTLE key max_burst count period", "1 THROTTLE a 1 1 MS")
	text("limit 2 of CL.ALL (key 'b') needs 3 arguments, but has 2: the syntax is WINDOW key limit period", "1 WINDOW a 1 1 WINDOW b 1")
	text("limit 2 of CL.ALL needs 3 arguments, but has 0: the syntax is WINDOW key limit period", "1 WINDOW a 1 1 WINDOW")
	text("limit 1 of CL.ALL (key 'a'): BUCKETS must be followed by an integer from 1 to 1024", "1 WINDOW a 1 1 BUCKETS")
	text("limit 1 of CL.ALL (key 'a'): BUCKETS must be followed by an integer from 1 to 1024", "1 WINDOW a 1 1 BUCKETS MS")
	text("limit 1 of CL.ALL (key 'a'): invalid number of BUCKETS '1025': must be an integer from 1 to 1024", "1 WINDOW a 1 1 BUCKETS 1025")
	f(errUnitPlace, "1 WINDOW a 1 1 MS WINDOW b 1 1")
	f(errUnitPlace, "1 WINDOW a 1 1 MS MS")
	text("limit 1 of CL.ALL (key 'a'): invalid period '0': "+period, "1 WINDOW a 1 0")
	text("limit 1 of CL.ALL (key 'a'): invalid period 'WINDOW': "+period, "1 WINDOW a 1 WINDOW b 1 1")
	text("limit 1 of CL.ALL (key 'a'): invalid period '0x1': "+period, "1 LEAKY a 1 1 0x1")
	text("limit 2 of CL.ALL (key 'b'): invalid max_burst '-1': must be a 64-bit integer of at least 0", "1 WINDOW a 1 1 THROTTLE b -1 1 1")
	text("limit 2 of CL.ALL (key 'b'): limit out of range: period must be at most 4611686018 seconds (146 years)", "1 WINDOW a 1 1 WINDOW b 1 53376d")

	most := strings.Repeat(" WINDOW a 1 1", limiter.MaxGroup)
	if p := parseCommand("CL.ALL 1" + most + " MS"); p.err != nil || len(p.reqs) != limiter.MaxGroup {
		t.Errorf("%d limits: got error %v, or the number of requests is wrong; want no error, and one request for each limit", limiter.MaxGroup, p.err)
	}
	if !strings.Contains(string(errManyLimits), " "+strconv.Itoa(limiter.MaxGroup)+" ") {
		t.Errorf("%q does not name the maximum, %d", errManyLimits, limiter.MaxGroup)
	}
	f(errManyLimits, "1"+most+" WINDOW b 1 1")
	f(errManyLimits, "1"+most+" NONSENSE")
	f(errManyLimits, "1"+strings.Repeat(most, 4))
	text("limit 32 of CL.ALL cannot begin with 'NONSENSE': "+use+"; the mode of limit 31 of CL.ALL "+modes,
		"1"+strings.TrimPrefix(most, " WINDOW a 1 1")+" NONSENSE x 1 1")
}

// FuzzAll parses arbitrary words as a CL.ALL command. A command that is accepted must have 1 to limiter.MaxGroup
// requests. All requests except the last must be Linked. movedKeys must return the keys of all requests.
func FuzzAll(f *testing.F) {
	for _, line := range []string{
		"1 WINDOW a 1 1", "1 WINDOW a 1 1s BUCKETS 3 WINDOW b 1 1h LOG MS", "-1 THROTTLE a 1 1 1 BUCKET b 1 1 1 LEAKY c 1 1 1",
		"0 window a 1 1 fixed", "1 WINDOW a 1 1 BUCKETS", "1" + strings.Repeat(" WINDOW a 1 1", 33), "1 LEAKY MS 1 1 1 MS", "1 WINDOW  1 1 ",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := [][]byte{[]byte("cl.all")}
		for _, w := range strings.Split(line, " ") {
			args = append(args, []byte(w))
		}
		cmd := testCommands.named("cl.all")
		if !cmd.arityFits(len(args)) {
			return
		}
		p := parsing{logEntries: 1}
		if err := cmd.parse(&p, args); err != nil {
			if _, known := asReply(err); !known {
				t.Fatalf("%q: got error %v, want one with an error reply", line, err)
			}
			return
		}
		reqs := p.reqs
		if len(reqs) < 1 || len(reqs) > mostRequests(cmd, args) {
			t.Fatalf("%q: got %d requests, want 1 to mostRequests", line, len(reqs))
		}
		keys, err := cmd.movedKeys(args)
		if err != nil || len(keys) != len(reqs) {
			t.Fatalf("%q: movedKeys returned %d keys, want %d, and error %v, want none", line, len(keys), len(reqs), err)
		}
		for i, req := range reqs {
			if req.Linked != (i < len(reqs)-1) || !req.Kind.Known() || req.Limit.Max < 1 || req.Limit.Interval < 1 || !bytes.Equal(req.Key, keys[i]) {
				t.Fatalf("%q: request %d is invalid, has a wrong Linked, or has a key that differs from movedKeys: %+v", line, i, req)
			}
		}
	})
}

// TestDeciding checks that the function deciding selects the right decision of a group.
func TestDeciding(t *testing.T) {
	admitted := func(remaining int64, reset time.Duration) limiter.Decision {
		return limiter.Decision{Remaining: remaining, RetryAfter: limiter.NoRetry, ResetAfter: reset}
	}
	refused := func(retry time.Duration) limiter.Decision {
		return limiter.Decision{Limited: true, RetryAfter: retry, ResetAfter: retry}
	}
	never := refused(limiter.NoRetry)
	f := func(want int, out ...limiter.Decision) {
		t.Helper()
		if deciding(out) != &out[want] {
			t.Errorf("%+v: another decision was selected, want the one at index %d", out, want)
		}
	}
	f(0, admitted(5, 1))
	f(1, admitted(5, 1), admitted(4, 1), admitted(6, 9))
	f(2, admitted(5, 1), admitted(5, 2), admitted(5, 3))
	f(1, admitted(5, 1), admitted(5, 2), admitted(5, 2))
	f(0, admitted(5, 1), admitted(5, 1))
	f(1, admitted(0, 9), refused(1), admitted(0, 9))
	f(2, refused(1), refused(2), refused(3), refused(3))
	f(1, refused(1<<62), never, refused(5), never)
	f(0, never, refused(1<<62))
	f(3, admitted(0, 9), admitted(1, 9), refused(1), never)
}
