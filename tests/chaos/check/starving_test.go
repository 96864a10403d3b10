package check

import (
	"testing"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

// TestGrants evaluates requests for ten units per second on a key that admits two units per second.
func TestGrants(t *testing.T) {
	k := &history.Key{MaxBurst: 1, Count: 2, Period: time.Second}
	asked := func(lasted time.Duration, granted func(i int) history.Outcome) (ops []history.Op) {
		for at := time.Duration(0); at < lasted; at += 100 * time.Millisecond {
			o := history.Op{Key: k, Quantity: 1, Call: int64(at), Return: int64(at) + 1e6}
			o.Outcome = granted(len(ops))
			ops = append(ops, o)
		}
		return ops
	}
	fair := func(i int) history.Outcome {
		return map[bool]history.Outcome{true: history.Granted, false: history.Limited}[i%5 == 0]
	}
	never := func(i int) history.Outcome {
		return map[bool]history.Outcome{true: history.Granted, false: history.Limited}[i < 2]
	}
	stops := func(i int) history.Outcome {
		return map[bool]history.Outcome{true: fair(i), false: history.Limited}[i < 20]
	}
	open := func(int) history.Outcome { return history.Unknown }
	for _, tt := range []struct {
		name    string
		ops     []history.Op
		silence time.Duration
		due     int64
		starved bool
	}{
		{"no requests", nil, 0, 0, false},
		{"all due units granted", asked(10*time.Second, fair), 0, 10, false},
		{"grants stop", asked(10*time.Second, stops), 0, 10, true},
		{"nothing granted", asked(10*time.Second, never), 0, 10, true},
		{"no decisions for most of the time", asked(10*time.Second, never), 6 * time.Second, 0, false},
		{"observation too short", asked(4*time.Second, never), 0, 0, false},
		{"unknown outcomes", asked(10*time.Second, open), 0, 0, false},
	} {
		got := Grants(k, tt.ops, tt.silence)
		if got.Due != tt.due || got.Starved() != tt.starved {
			t.Errorf("%s: got %+v; want Due and Starved of the case", tt.name, got)
		}
	}
	few := asked(10*time.Second, never)
	for i := range few {
		few[i].Quantity = 3 // above the limit
	}
	if got := Grants(k, few, 0); got.Due != 0 {
		t.Errorf("requests for more than the limit: got %+v, want Due 0", got)
	}
}
