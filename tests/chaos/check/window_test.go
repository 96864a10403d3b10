package check

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/tests/chaos/history"
	"github.com/throttledhq/throttled/windowlog"
)

// slowWindow implements the definition of Window. It returns the units granted in the worst
// interval.
func slowWindow(k *history.Key, ops []history.Op) (most int64) {
	for i := range ops {
		units := int64(0)
		for j := range ops {
			switch o := &ops[j]; {
			case o.Charges() && o.Call >= ops[i].Call && o.Return-ops[i].Call < int64(k.Period):
				units += o.Quantity
			case o.Return >= ops[i].Call && o.Call-ops[i].Call < int64(k.Period):
				units -= o.Restores()
			}
		}
		most = max(most, units)
	}
	return most
}

// logged generates a history of a sliding log with the arithmetic of the server. The speed argument
// is the speed of the limiter's clock in percent of real time.
func logged(t *testing.T, k *history.Key, r *rand.Rand, speed int64) []history.Op {
	t.Helper()
	l, err := windowlog.NewLimit(k.Limit(), limiter.Period{N: int64(k.Period), Unit: 1}, 100)
	if err != nil {
		t.Fatal(err)
	}
	var ops []history.Op
	var state limiter.State
	for now := int64(0); len(ops) < 400; now += r.Int64N(int64(k.Period) / 20) {
		o := history.Op{Key: k, Quantity: r.Int64N(3), Call: now - r.Int64N(1e7), Return: now + r.Int64N(1e7)}
		at := uint64(now/100*speed) + 1<<50
		if state.Expires <= at {
			state = limiter.State{}
		}
		change, d := windowlog.Decide(&l, state, at, o.Quantity, make([]byte, 1<<12))
		if change.Set {
			state.Data = append(state.Data[:change.Keep:change.Keep], change.Tail...)
			state.Expires = change.Expires
		}
		if o.Outcome = history.Granted; d.Limited {
			o.Outcome = history.Limited
		}
		ops = append(ops, o)
	}
	return ops
}

func TestWindowIsSound(t *testing.T) {
	k := &history.Key{Form: history.Window, MaxBurst: 9, Count: 1, Period: time.Second}
	for seed := range uint64(20) {
		for _, speed := range []int64{100, 60} {
			ops := logged(t, k, rand.New(rand.NewPCG(seed, 1)), speed)
			got := Window(k, ops, Slack{})
			if got.Violated || got.Granted != slowWindow(k, ops) || got.Granted < 8 {
				t.Errorf("seed %d, clock at %d %% of real time: %s; slowWindow: %d units; want no violation, equal units, and at least 8 units", seed, speed, got, slowWindow(k, ops))
			}
		}
	}
}

// TestWindowNotices checks that a fast clock and a unit above the limit are detected.
func TestWindowNotices(t *testing.T) {
	k := &history.Key{Form: history.Window, MaxBurst: 9, Count: 1, Period: time.Second}
	ops := logged(t, k, rand.New(rand.NewPCG(1, 1)), 130)
	if got := Window(k, ops, Slack{}); !got.Violated || got.Granted != slowWindow(k, ops) {
		t.Errorf("a fast clock is not detected: %s", got)
	}
	if got := Window(k, ops, Slack{Drift: 600_000}); got.Violated {
		t.Errorf("a fast clock within the permitted drift is reported: %s", got)
	}
	stricter := &history.Key{Form: history.Window, MaxBurst: 8, Count: 1, Period: time.Second}
	if got := Window(stricter, logged(t, k, rand.New(rand.NewPCG(1, 1)), 100), Slack{}); !got.Violated || got.Over != 1 {
		t.Errorf("one unit above the limit is granted, but Window returns: %s", got)
	}
}

func TestWindowExamples(t *testing.T) {
	k := &history.Key{Form: history.Window, MaxBurst: 1, Count: 1, Period: 10}
	op := func(call, ret, quantity int64, outcome history.Outcome) history.Op {
		return history.Op{Key: k, Call: call, Return: ret, Quantity: quantity, Outcome: outcome}
	}
	for _, tt := range []struct {
		name    string
		ops     []history.Op
		granted int64
	}{
		{"nothing", nil, 0},
		{"unknown and refused", []history.Op{op(0, history.Never, 1, history.Unknown), op(0, 1, 3, history.Limited)}, 0},
		{"within one period", []history.Op{op(0, 1, 2, history.Granted), op(8, 9, 1, history.Granted)}, 3},
		{"a period apart", []history.Op{op(0, 1, 2, history.Granted), op(8, 10, 1, history.Granted)}, 2},
		{"the later one is longer", []history.Op{op(0, 30, 2, history.Granted), op(8, 9, 1, history.Granted), op(17, 17, 1, history.Granted)}, 2},
	} {
		if got := Window(k, tt.ops, Slack{}); got.Granted != tt.granted || got.Violated != (tt.granted > 2) {
			t.Errorf("%s: got %+v; want the granted units of the case, and a violation only above 2 units", tt.name, got)
		}
	}
}
