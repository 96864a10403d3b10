package check

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

// slowKey returns a load on a key that restores nothing during a run.
func slowKey() sim {
	s := sims()["daily"]
	s.key.MaxBurst = 2000
	return s
}

func TestWitnessIsSound(t *testing.T) {
	for seed := range uint64(40) {
		s := slowKey()
		s.lost, s.stops = float64(seed%3)*0.03, int(seed%4)
		if seed%5 == 0 {
			s.key.MaxBurst = 300 // exhausted during the run
		}
		if seed%2 == 0 {
			s.think *= 300 // pauses long enough that ResetAfter changes during the run
		}
		if err := Witness(&s.key, s.run(t, rand.New(rand.NewPCG(seed, 5)))); err != nil {
			t.Errorf("seed %d: a correct limiter is reported: %v", seed, err)
		}
	}
}

// TestWitnessNotices checks that a single lost charge and a single extra charge are detected.
func TestWitnessNotices(t *testing.T) {
	for name, change := range map[string]int64{"forgotten": -1, "invented": 1} {
		s := slowKey()
		s.broken = func(op int, tat uint64) uint64 {
			if op == 100 {
				return uint64(int64(tat) + change*s.key.Interval())
			}
			return tat
		}
		if err := Witness(&s.key, s.run(t, rand.New(rand.NewPCG(1, 5)))); err == nil {
			t.Errorf("%s charge: Witness returns no error, want one", name)
		}
	}
}

func TestWitnessExamples(t *testing.T) {
	const sec = int64(time.Second)
	k := &history.Key{MaxBurst: 9, Count: 1, Period: 100 * time.Second}
	op := func(call, ret, quantity, used, reset int64) history.Op {
		return history.Op{Key: k, Call: call * sec, Return: ret * sec, Quantity: quantity, Remaining: 10 - used, ResetAfter: reset}
	}
	lost := history.Op{Key: k, Call: 0, Return: history.Never, Quantity: 2, Outcome: history.Unknown}
	full := op(3, 4, 20, 2, 197)
	full.Outcome = history.Limited
	for _, tt := range []struct {
		name string
		ops  []history.Op
		says string
	}{
		{"nothing", nil, ""},
		{"one after the other", []history.Op{op(0, 1, 2, 2, 200), op(2, 3, 1, 3, 298)}, ""},
		{"at the same time", []history.Op{op(0, 4, 2, 3, 300), op(2, 3, 1, 1, 100)}, ""},
		{"a refusal", []history.Op{op(0, 1, 2, 2, 200), full}, ""},
		{"equal peeks", []history.Op{op(0, 1, 1, 1, 100), op(2, 3, 0, 1, 98), op(4, 5, 0, 1, 96)}, ""},
		{"one unit twice", []history.Op{op(0, 1, 2, 2, 200), op(2, 3, 1, 2, 198)}, "same units"},
		{"not requested", []history.Op{op(0, 1, 2, 3, 300)}, "requested by no client"},
		{"a charge without a reply", []history.Op{lost, op(0, 1, 1, 3, 300)}, ""},
		{"more in use than requested", []history.Op{lost, op(0, 1, 1, 4, 400)}, "requested by no client"},
		{"a peek that misses a charge", []history.Op{op(0, 1, 1, 1, 100), op(1, 2, 1, 2, 199), op(3, 4, 0, 1, 97)}, "reports more"},
		{"a peek that includes a later charge", []history.Op{op(3, 4, 1, 1, 97), op(0, 1, 0, 1, 100)}, "reports more"},
		{"the wrong order", []history.Op{op(0, 1, 1, 2, 200), op(2, 3, 1, 1, 99)}, "reports more"},
		{"time decreases", []history.Op{op(0, 1, 1, 1, 90), op(2, 3, 1, 2, 192)}, "decreased"},
		{"time is too fast", []history.Op{op(0, 1, 1, 1, 100), op(2, 3, 1, 2, 190)}, "was ahead"},
		{"time is stopped", []history.Op{op(0, 1, 1, 1, 100), op(50, 51, 1, 2, 200)}, ""},
	} {
		err := Witness(k, tt.ops)
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got the error %v; want the error of the case, or none", tt.name, err)
		}
	}
}
