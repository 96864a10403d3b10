package check

import (
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

// slowInterval implements the definition of Interval: it tries all pairs of times, in arbitrary
// precision. It returns the largest excess over the limit, in units, multiplied by the period. It
// returns nil if nothing was granted.
func slowInterval(k *history.Key, ops []history.Op, slack Slack) (worst *big.Int) {
	for i := range ops {
		for j := range ops {
			if !ops[i].Charges() || !ops[j].Charges() || ops[j].Return < ops[i].Return {
				continue
			}
			from, to, units := ops[i].Call, ops[j].Return, int64(0)
			for _, o := range ops {
				switch {
				case o.Charges() && o.Call >= from && o.Return <= to:
					units += o.Quantity
				case o.Return >= from && o.Call <= to:
					units -= o.Restores()
				}
			}
			over := new(big.Int).Mul(big.NewInt(units-k.Limit()), big.NewInt(int64(k.Period)))
			over.Sub(over, new(big.Int).Mul(big.NewInt(k.Count), big.NewInt(slack.end(to)-slack.begin(from))))
			if worst == nil || worst.Cmp(over) < 0 {
				worst = over
			}
		}
	}
	return worst
}

func agree(t *testing.T, k *history.Key, ops []history.Op, slack Slack) Stretch {
	t.Helper()
	s, want := Interval(k, ops, slack), slowInterval(k, ops, slack)
	if want == nil {
		if s.Violated || s.Over != -float64(k.Limit()) {
			t.Errorf("nothing granted: got %+v, want no violation, and Over equal to minus the limit", s)
		}
		return s
	}
	over, _ := new(big.Rat).SetFrac(want, big.NewInt(int64(k.Period))).Float64()
	if s.Violated != (want.Sign() > 0) || s.Over-over > 1e-6 || over-s.Over > 1e-6 {
		t.Errorf("got %+v, want Over %f, and a violation if Over is positive", s, over)
	}
	return s
}

func TestIntervalExamples(t *testing.T) {
	const sec = int64(time.Second)
	k := &history.Key{MaxBurst: 1, Count: 1, Period: time.Second} // a burst of 2 units, restored at 1 unit per second
	op := func(call, ret, quantity int64) history.Op {
		return history.Op{Key: k, Call: call, Return: ret, Quantity: quantity}
	}
	for _, tt := range []struct {
		name     string
		ops      []history.Op
		slack    Slack
		violated bool
		want     string
	}{
		{"nothing", nil, Slack{}, false, ""},
		{"a burst", []history.Op{op(0, 0, 1), op(0, 0, 1)}, Slack{}, false, "2 units granted between 0.000000 s and 0.000000 s, 0.000 more"},
		{"one more", []history.Op{op(0, 0, 1), op(0, 0, 2)}, Slack{}, true, "3 units granted between 0.000000 s and 0.000000 s, 1.000 more"},
		{"one more after a second", []history.Op{op(0, 0, 2), op(sec, sec, 1)}, Slack{}, false, ""},
		{"a nanosecond early", []history.Op{op(0, 0, 2), op(0, sec-1, 1)}, Slack{}, true, "3 units granted between 0.000000 s and 1.000000 s, 0.000 more"},
		{"early within the slack", []history.Op{op(0, 0, 2), op(0, sec-5, 1)}, Slack{Ahead: 5}, false, ""},
		{"early beyond the slack", []history.Op{op(0, 0, 2), op(0, sec-6, 1)}, Slack{Ahead: 5}, true, ""},
		{"early within the drift", []history.Op{op(0, 0, 2), op(0, sec-1e6, 1)}, Slack{Drift: 1002}, false, ""},
		{"early beyond the drift", []history.Op{op(0, 0, 2), op(0, sec-1e6, 1)}, Slack{Drift: 1000}, true, ""},
		{"later burst", []history.Op{op(0, 1, 1), op(9*sec, 9*sec, 3)}, Slack{}, true, "3 units granted between 9.000000 s and 9.000000 s, 1.000 more"},
		{"refusals and unknowns do not count", []history.Op{
			op(0, 0, 2), {Key: k, Outcome: history.Limited, Quantity: 5}, {Key: k, Outcome: history.Unknown, Quantity: 5, Return: history.Never},
		}, Slack{}, false, ""},
		{"a refund", []history.Op{op(0, 0, 2), op(1, 2, -1), op(3, 3, 1)}, Slack{}, false, ""},
		{"a refund of less", []history.Op{op(0, 0, 2), op(1, 2, -1), op(3, 3, 2)}, Slack{}, true, "3 units"},
		{"a refund later", []history.Op{op(0, 0, 2), op(1, 2, 1), op(3, 3, -1)}, Slack{}, true, "3 units"},
		{"a refund before", []history.Op{op(0, 1, -1), op(2, 2, 2), op(3, 3, 1)}, Slack{}, true, "3 units"},
		{"a refund that may be later than its call", []history.Op{op(0, 5, -1), op(2, 2, 2), op(3, 3, 1)}, Slack{}, false, ""},
		{"an unknown refund", []history.Op{{Key: k, Outcome: history.Unknown, Quantity: -1, Return: history.Never}, op(2, 2, 2), op(3, 3, 1)}, Slack{}, false, ""},
		{"a deletion", []history.Op{op(0, 0, 2), {Key: k, Kind: history.Delete, Call: 1, Return: 2}, op(3, 3, 2)}, Slack{}, false, ""},
		{"more after a deletion", []history.Op{op(0, 0, 2), {Key: k, Kind: history.Delete, Call: 1, Return: 2}, op(3, 3, 3)}, Slack{}, true, ""},
		{"long call", []history.Op{op(0, 0, 2), op(0, 5*sec, 2)}, Slack{}, false, ""},
	} {
		s := agree(t, k, tt.ops, tt.slack)
		if s.Violated != tt.violated || !strings.HasPrefix(s.String(), tt.want) {
			t.Errorf("%s: got %+v, as text: %s; want the violation and the text of the case", tt.name, s, s)
		}
	}
}

// TestIntervalIsSound checks that Interval reports no violation for a correct limiter.
func TestIntervalIsSound(t *testing.T) {
	for name, s := range sims() {
		for seed := range uint64(20) {
			ops := s.run(t, rand.New(rand.NewPCG(seed, 1)))
			if got := agree(t, &s.key, ops[:min(len(ops), 60)], Slack{}); got.Violated {
				t.Errorf("%s, seed %d, first 60 requests: false violation: %s", name, seed, got)
			}
			if got := Interval(&s.key, ops, Slack{}); got.Violated {
				t.Errorf("%s, seed %d: false violation: %s", name, seed, got)
			}
		}
	}
}

// TestIntervalNotices checks that occasionally lost charges are detected.
func TestIntervalNotices(t *testing.T) {
	for _, name := range []string{"hot", "daily"} {
		s := sims()[name]
		s.broken = func(op int, tat uint64) uint64 {
			if op%60 == 59 {
				return 0
			}
			return tat
		}
		s.key.MaxBurst = min(s.key.MaxBurst, 20)
		got := Interval(&s.key, s.run(t, rand.New(rand.NewPCG(1, 1))), Slack{})
		if !got.Violated || got.Over < 1 {
			t.Errorf("%s: the lost charges are not detected: %s", name, got)
		}
	}
}

// TestIntervalIsFast checks that Interval takes seconds for a million requests on one key, or
// minutes on a busy machine.
func TestIntervalIsFast(t *testing.T) {
	k := &history.Key{MaxBurst: 99, Count: 1000, Period: time.Second}
	ops := make([]history.Op, 1e6)
	for i := range ops {
		ops[i] = history.Op{Key: k, Quantity: 1, Call: int64(i) * 1e6, Return: int64(i)*1e6 + 3e6}
	}
	begin := time.Now()
	if s := Interval(k, ops, Slack{}); s.Violated || s.Granted == 0 {
		t.Error(s)
	}
	if took := time.Since(begin); took > soon {
		t.Errorf("Interval took %s, want at most 5 minutes", took)
	}
}

// FuzzInterval compares Interval with slowInterval on arbitrary histories.
func FuzzInterval(f *testing.F) {
	f.Add(int64(1), int64(1), uint8(1), int64(0), []byte{1, 2, 3, 4, 5, 6})
	f.Add(int64(0), int64(7), uint8(3), int64(500), []byte{0, 0, 1, 0, 0, 1, 0, 9, 1})
	f.Fuzz(func(t *testing.T, burst, count int64, period uint8, drift int64, data []byte) {
		k := &history.Key{MaxBurst: burst & 0xff, Count: 1 + count&0xffff, Period: 1 + time.Duration(period)}
		ops, now := []history.Op{}, int64(0)
		for ; len(data) >= 3 && len(ops) < 40; data = data[3:] {
			now += int64(data[0])
			o := history.Op{Key: k, Call: now, Return: now + int64(data[1]), Quantity: int64(data[2] >> 2), Outcome: history.Outcome(data[2] & 3 % 3)}
			ops = append(ops, o)
		}
		agree(t, k, ops, Slack{Drift: drift & 0xffff, Ahead: time.Duration(period & 3)})
	})
}
