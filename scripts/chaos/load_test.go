package main

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/throttledhq/throttled/scripts/chaos/history"
)

func TestTally(t *testing.T) {
	made := func(granted, limited, open int) *client {
		c := &client{pairs: make([]pairCount, pairKeys), refused: map[string]int{"BUSY": 1}, lost: map[string]int{"connection": open}, downs: 2, errs: []string{"x"}}
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
	want := tally{decided: 6, limited: 2, unknown: 5, refused: map[string]int{"BUSY": 2}, lost: map[string]int{"connection": 5}, downs: 4, errs: []string{"x", "x"}, pairs: make([]pairCount, pairKeys)}
	want.pairs[3] = pairCount{charged: 8, open: 2}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

// TestKeys: each key has one meaning for a whole run, and is judged by the checkers that can.
func TestKeys(t *testing.T) {
	ring := newKeyring()
	seen := map[string]bool{}
	for _, keys := range [][]*history.Key{ring.hot, ring.cold, ring.ledger} {
		for _, k := range keys {
			if seen[k.Name] || searchable(k) || k.Limit() < 1 || k.Interval() < 1 {
				t.Errorf("%+v", *k)
			}
			seen[k.Name] = true
		}
	}
	for _, k := range ring.ledger {
		if back := int64(time.Hour) / k.Interval(); back != 0 {
			t.Errorf("%d units of %s come back in an hour", back, k.Name)
		}
	}
	l := &load{linear: map[history.Key]*history.Key{}}
	for i := range linearKeys {
		first, same, later := linear(i, 1), linear(i, int64(linearSpan)-1), linear(i, int64(linearSpan))
		if !searchable(&first) || first != same || first == later || l.share(first) != l.share(same) || l.share(first) == l.share(later) {
			t.Errorf("%+v %+v %+v", first, same, later)
		}
	}
}

// TestClientAccounts: what a client cannot know stays open, and what must not be is remembered.
func TestClientAccounts(t *testing.T) {
	k := &history.Key{Name: "hot:1", MaxBurst: 1, Count: 1, Period: time.Second}
	for _, tt := range []struct {
		name, says                        string
		ops, open, refused, lost, strange int
	}{
		{"granted", "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:1\r\n", 1, 0, 0, 0, 0},
		{"limited", "*5\r\n:1\r\n:2\r\n:0\r\n:1\r\n:2\r\n", 1, 0, 0, 0, 0},
		{"of another limit", "*5\r\n:0\r\n:3\r\n:1\r\n:-1\r\n:1\r\n", 0, 0, 0, 0, 1},
		{"too short", "*1\r\n:0\r\n", 0, 0, 0, 0, 1},
		{"refused", "-BUSY x\r\n", 0, 0, 1, 0, 0},
		{"uncertain", "-UNCERTAIN x\r\n", 1, 1, 0, 1, 0},
		{"an error that must not be", "-ERR x\r\n", 0, 0, 0, 0, 1},
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
			t.Errorf("%s: %+v", tt.name, c)
		}
	}
	c := &client{addrs: []string{"127.0.0.1:1", "127.0.0.1:2"}, clock: newClock()}
	if c.throttle(k, 1); c.downs != 1 || c.at != 1 || len(c.ops) != 0 {
		t.Errorf("nobody there: %+v", c)
	}
}
