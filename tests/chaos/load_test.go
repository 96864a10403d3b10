package main

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

func TestTally(t *testing.T) {
	made := func(granted, limited, open int) *client {
		c := &client{pairs: make([]pairCount, pairKeys), refused: map[string]int{"BUSY": 1}, lost: map[string]int{"connection": open}, downs: 2, errs: []string{"x"}, piped: 3, cutOff: 1}
		for outcome, n := range []int{granted, limited, open} {
			for range n {
				c.ops = append(c.ops, history.Op{Outcome: history.Outcome(outcome)})
			}
		}
		c.pairs[3] = pairCount{charged: 4, open: 1}
		return c
	}
	l := &load{clients: []*client{made(3, 2, 1), made(1, 0, 4)}}
	got := l.tally()
	want := tally{decided: 6, limited: 2, unknown: 5, refused: map[string]int{"BUSY": 2}, lost: map[string]int{"connection": 5}, downs: 4, piped: 6, cutOff: 2, errs: []string{"x", "x"}, pairs: make([]pairCount, pairKeys)}
	want.pairs[3] = pairCount{charged: 8, open: 2}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("tally() = %+v, want the sums of the counters of both clients", got)
	}
}

// TestKeys checks that keys are unique, constant during a run, and suitable for their checkers.
func TestKeys(t *testing.T) {
	ring := newKeyring()
	seen := map[string]bool{}
	for _, keys := range [][]*history.Key{ring.hot, ring.cold, ring.ledger} {
		for _, k := range keys {
			if seen[k.Name] || searchable(k) || k.Limit() < 1 || k.Interval() < 1 {
				t.Errorf("key %+v: its name is used twice, it is a key for check.Linear, or its limit or emission interval is less than 1", *k)
			}
			seen[k.Name] = true
		}
	}
	for _, k := range ring.ledger {
		if back := int64(time.Hour) / k.Interval(); back != 0 {
			t.Errorf("%d units of %s are restored in an hour, want 0", back, k.Name)
		}
	}
	l := &load{linear: map[history.Key]*history.Key{}}
	for i := range linearKeys {
		first, same, later := linear(i, 1), linear(i, int64(linearSpan)-1), linear(i, int64(linearSpan))
		if !searchable(&first) || first != same || first == later || l.share(first) != l.share(same) || l.share(first) == l.share(later) {
			t.Errorf("keys at the start and the end of one span, and in the next span: %+v, %+v, %+v; want the first two equal and shared, and another key in the next span", first, same, later)
		}
	}
}

// TestClientAccounts checks that unknown outcomes are recorded as unknown, and invalid replies as
// errors.
func TestClientAccounts(t *testing.T) {
	k := &history.Key{Name: "hot:1", MaxBurst: 1, Count: 1, Period: time.Second}
	for _, tt := range []struct {
		name, says                        string
		ops, open, refused, lost, strange int
	}{
		{"granted", "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:1\r\n", 1, 0, 0, 0, 0},
		{"limited", "*5\r\n:1\r\n:2\r\n:0\r\n:1\r\n:2\r\n", 1, 0, 0, 0, 0},
		{"reply with another limit", "*5\r\n:0\r\n:3\r\n:1\r\n:-1\r\n:1\r\n", 0, 0, 0, 0, 1},
		{"too short", "*1\r\n:0\r\n", 0, 0, 0, 0, 1},
		{"refused", "-BUSY x\r\n", 0, 0, 1, 0, 0},
		{"uncertain", "-UNCERTAIN x\r\n", 1, 1, 0, 1, 0},
		{"an unexpected error", "-ERR x\r\n", 0, 0, 0, 0, 1},
		{"garbage", "nonsense\r\n", 1, 1, 0, 1, 0},
		{"nothing", "", 1, 1, 0, 1, 0},
	} {
		c := &client{addrs: []string{answer(t, tt.says)}, clock: newClock(), random: rand.New(rand.NewPCG(1, 1)), refused: map[string]int{}, lost: map[string]int{}}
		c.throttle(k, 1)
		open := 0
		for _, o := range c.ops {
			if o.Outcome == history.Unknown && o.Return == history.Never {
				open++
			}
		}
		if len(c.ops) != tt.ops || open != tt.open || sum(c.refused) != tt.refused || sum(c.lost) != tt.lost || len(c.errs) != tt.strange || c.downs != 0 {
			t.Errorf("%s: the client is %+v; want the counters of the case", tt.name, c)
		}
	}
	c := &client{addrs: []string{"127.0.0.1:1", "127.0.0.1:2"}, clock: newClock()}
	if c.throttle(k, 1); c.downs != 1 || c.current != 1 || len(c.ops) != 0 {
		t.Errorf("no listener: the client is %+v; want 1 failed dial, then the second address, and no recorded request", c)
	}
}

// TestPipeline checks that replies are matched to requests in order. If the connection is closed
// early, each request without a reply has an unknown outcome.
func TestPipeline(t *testing.T) {
	ring := newKeyring()
	one, two, ten := ofKey(ring.hot[0], 1), ofKey(ring.hot[1], 1), ofKey(ring.hot[9], 1)
	const granted1, granted2, granted10 = "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:1\r\n", "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:1\r\n", "*5\r\n:1\r\n:10\r\n:0\r\n:1\r\n:2\r\n"
	for _, tt := range []struct {
		name, says                       string
		ops, open, refused, strange, cut int
	}{
		{"in order", granted1 + granted2 + granted10, 3, 0, 0, 0, 0},
		{"two in the wrong order", granted2 + granted1 + granted10, 1, 0, 0, 2, 0},
		{"cut off", granted1, 3, 2, 0, 0, 1},
		{"cut in a reply", granted1 + granted2[:9], 3, 2, 0, 0, 1},
		{"one is refused", granted1 + "-BUSY x\r\n" + granted10, 2, 0, 1, 0, 0},
		{"one is uncertain", granted1 + "-UNCERTAIN x\r\n" + granted10, 3, 1, 0, 0, 0},
	} {
		c := &client{addrs: []string{answer(t, tt.says)}, clock: newClock(), refused: map[string]int{}, lost: map[string]int{}}
		c.decide(one, two, ten)
		open := 0
		for i, o := range c.ops {
			if o.Outcome == history.Unknown {
				open++
			}
			if len(c.ops) == 3 && o.Key != []request{one, two, ten}[i].op.Key {
				t.Errorf("%s: reply %d is recorded for key %s, want the key of the request at the same position", tt.name, i, o.Key.Name)
			}
		}
		if len(c.ops) != tt.ops || open != tt.open || sum(c.refused) != tt.refused || len(c.errs) != tt.strange || c.cutOff != tt.cut || c.piped != 1 {
			t.Errorf("%s: the client is %+v; want the counters of the case", tt.name, c)
		}
	}
}

// TestPipelines checks that a pipeline has 2 to mostPiped requests. The server closes the
// connection without a reply, so all outcomes must be unknown.
func TestPipelines(t *testing.T) {
	c := &client{addrs: []string{answer(t, "")}, clock: newClock(), random: rand.New(rand.NewPCG(1, 1)), keys: newKeyring(), refused: map[string]int{}, lost: map[string]int{}}
	c.pipeline()
	for _, o := range c.ops {
		if o.Outcome != history.Unknown {
			t.Errorf("the outcome of a request without a reply is not unknown: %+v", o)
		}
	}
	if len(c.ops) < 2 || len(c.ops) > mostPiped || c.piped != 1 {
		t.Errorf("%d requests, want 2 to 12; %d pipelines, want 1", len(c.ops), c.piped)
	}
}

// TestWindows checks the command and the bound of a key of each algorithm other than GCRA.
func TestWindows(t *testing.T) {
	for _, tt := range []struct {
		i     int
		words string
		of    history.Key
	}{
		{0, "CL.WINDOW window:LOG:0 2 1 3 LOG", history.Key{Form: history.Window, MaxBurst: 1, Count: 2, Period: time.Second}},
		{1, "CL.WINDOW window:BUCKETS:0 2 1 3 BUCKETS 5", history.Key{Form: history.Window, MaxBurst: 1, Count: 2, Period: 800 * time.Millisecond}},
		{2, "CL.WINDOW window:FIXED:0 2 1 3 FIXED", history.Key{Form: history.Bound, MaxBurst: 3, Count: 2, Period: time.Second}},
		{3, "CL.WINDOW window:SLIDING:0 2 1 3 SLIDING", history.Key{Form: history.Bound, MaxBurst: 3, Count: 2, Period: time.Second}},
		{4, "CL.BUCKET bucket:0 2 1 1 3", history.Key{Form: history.Bound, MaxBurst: 2, Count: 1, Period: time.Second}},
	} {
		w := windows(0)[tt.i]
		q := w.request(3)
		tt.of.Name = q.words[1]
		if got := strings.Join(q.words, " "); got != tt.words || *q.op.Key != tt.of || q.limit != 2 || q.op.Quantity != 3 {
			t.Errorf("%s: the request is %+v; want the words and the key of the case, limit 2 and quantity 3", got, q)
		}
	}
	if got := len(newKeyring().window); got != 5*windowEach {
		t.Errorf("the keyring has %d keys of algorithms other than GCRA, want 20", got)
	}
}
