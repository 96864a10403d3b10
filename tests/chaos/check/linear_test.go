package check

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

// soon is the longest time that a check may take in a test.
const soon = 5 * time.Minute

// TestLinearIsSound checks that histories of a correct limiter are linearizable.
func TestLinearIsSound(t *testing.T) {
	for name, s := range sims() {
		clock := Clock{}
		if s.stops > 0 {
			clock.Behind = int64(s.stops) * int64(300*time.Millisecond)
		}
		for _, mixed := range []bool{false, true} {
			s.mixed = mixed
			for seed := range uint64(8) {
				ops := s.run(t, rand.New(rand.NewPCG(seed, 3)))
				begin := time.Now()
				if v, n := Linear(&s.key, ops, clock, soon); v != Linearizable || n != len(ops) {
					t.Errorf("%s, seed %d, mixed %t: got the verdict %s, want linearizable (%d of %d requests checked in %s)", name, seed, mixed, v, n, len(ops), time.Since(begin))
				}
			}
		}
	}
}

// TestLinearNotices checks that histories of a limiter with occasional errors are illegal.
func TestLinearNotices(t *testing.T) {
	for _, tt := range []struct {
		name   string
		broken func(op int, tat uint64) uint64
		behind int64
		skip   string // name of the load to skip, because its bucket is hardly ever in use
	}{
		{"forgets", func(op int, tat uint64) uint64 { return tat * uint64(min(1, op%60)) }, history.Never, "narrow"},
		{"charges twice", func(op int, tat uint64) uint64 { return tat + 2e9*uint64(1-min(1, op%60)) }, 0, ""},
	} {
		for name, s := range sims() {
			if name == "hot" || name == tt.skip {
				continue
			}
			s.broken = tt.broken
			ops := s.run(t, rand.New(rand.NewPCG(1, 4)))
			begin := time.Now()
			clock := Clock{Behind: max(tt.behind, int64(s.stops)*int64(300*time.Millisecond))}
			if v, n := Linear(&s.key, ops, clock, soon); v != Illegal {
				t.Errorf("%s, load %s: got the verdict %s, want illegal (%d requests checked in %s)", tt.name, name, v, n, time.Since(begin))
			}
		}
	}
}

// TestLinearIsFast checks that Linear takes seconds for 1,200 requests of eight clients, of which
// about 60 have no reply, even if the clock may fall behind without a bound.
func TestLinearIsFast(t *testing.T) {
	const ms = time.Millisecond
	for seed := range uint64(3) {
		s := sim{
			key: history.Key{MaxBurst: 9, Count: 5, Period: time.Second}, clients: 8, ops: 150,
			latency: 50 * ms, think: 400 * ms, lost: 0.05, stops: 20, mixed: seed == 2,
		}
		ops := s.run(t, rand.New(rand.NewPCG(seed, 7)))
		begin := time.Now()
		v, n := Linear(&s.key, ops, Clock{Behind: history.Never}, soon)
		if v != Linearizable || n != len(ops) {
			t.Errorf("seed %d: got the verdict %s for %d of %d requests after %s, want linearizable for all", seed, v, n, len(ops), time.Since(begin))
		}
		t.Logf("seed %d: checked in %s", seed, time.Since(begin))
	}
}

func TestLinearExamples(t *testing.T) {
	const sec = int64(time.Second)
	k := &history.Key{MaxBurst: 1, Count: 1, Period: 10 * time.Second} // a burst of 2 units, restored at 1 unit per 10 s
	op := func(call, ret, quantity, remaining, retry, reset int64) history.Op {
		o := history.Op{Key: k, Call: call, Return: ret, Quantity: quantity, Remaining: remaining, RetryAfter: retry, ResetAfter: reset}
		if retry > 0 {
			o.Outcome = history.Limited
		}
		return o
	}
	lost := func(call int64) history.Op {
		return history.Op{Key: k, Call: call, Return: history.Never, Quantity: 1, Outcome: history.Unknown}
	}
	del := func(call, ret int64, existed bool) history.Op {
		return history.Op{Key: k, Kind: history.Delete, Call: call, Return: ret, Existed: existed}
	}
	first := op(0, 1, 1, 1, -1, 10)
	for _, tt := range []struct {
		name   string
		ops    []history.Op
		behind int64
		want   Verdict
	}{
		{"two charges", []history.Op{first, op(2, 3, 1, 0, -1, 20)}, 0, Linearizable},
		{"the second charge misses the first", []history.Op{first, op(2, 3, 1, 1, -1, 10)}, 0, Illegal},
		{"two concurrent ones, the later one first", []history.Op{op(0, 5, 1, 0, -1, 20), op(0, 5, 1, 1, -1, 10)}, 0, Linearizable},
		{"a wrong reset", []history.Op{op(0, 1, 1, 1, -1, 11)}, 0, Illegal},
		{"a negative reset", []history.Op{op(0, 1, 1, 1, -1, -1)}, 0, Illegal},
		{"a refusal", []history.Op{first, op(2, 3, 1, 0, -1, 20), op(4, 5, 1, 0, 10, 20)}, 0, Linearizable},
		{"a refusal that the limit does not require", []history.Op{first, op(2, 3, 2, 1, 10, 10), op(4, 5, 1, 1, 10, 10)}, 0, Illegal},
		{"a refusal with a wrong retry", []history.Op{first, op(2, 3, 2, 1, 9, 10)}, 0, Illegal},
		{"more than the limit", []history.Op{{Key: k, Outcome: history.Limited, Quantity: 3, Remaining: 2, RetryAfter: -1}}, 0, Linearizable},
		{"units restored", []history.Op{first, op(10*sec, 10*sec+1, 2, 0, -1, 20)}, 0, Linearizable},
		{"units restored too early", []history.Op{first, op(10*sec-2, 10*sec-1, 2, 0, -1, 20)}, 0, Illegal},
		{"units not restored", []history.Op{first, op(10*sec+2, 10*sec+3, 2, 1, 1, 1)}, 0, Illegal},
		{"the clock stopped", []history.Op{first, op(10*sec+2, 10*sec+3, 2, 1, 1, 1)}, sec, Linearizable},
		{"the clock stopped too long", []history.Op{first, op(15*sec, 15*sec+3, 2, 1, 8, 8)}, sec, Illegal},
		{"unknown, and charged", []history.Op{lost(0), op(2, 3, 1, 0, -1, 20)}, 0, Linearizable},
		{"unknown, and not charged", []history.Op{lost(0), op(2, 3, 1, 1, -1, 10)}, 0, Linearizable},
		{"unknown, and charged later", []history.Op{lost(0), op(2, 3, 0, 2, -1, 0), op(4, 5, 1, 0, -1, 20)}, 0, Linearizable},
		{"unknown, and charged twice", []history.Op{lost(0), op(2, 3, 0, 0, -1, 20)}, 0, Illegal},
		{"unknown, and restored without a request", []history.Op{lost(0), op(2, 3, 0, 1, -1, 10), op(4, 5, 0, 2, -1, 0)}, 0, Illegal},
		{"deleted", []history.Op{first, del(2, 3, true), op(4, 5, 0, 2, -1, 0)}, 0, Linearizable},
		{"deleted twice", []history.Op{first, del(2, 3, true), del(4, 5, true)}, 0, Illegal},
		{"deleted, but reported absent", []history.Op{first, del(2, 3, false)}, 0, Illegal},
		{"deleted at rest", []history.Op{first, del(10*sec+2, 10*sec+3, false)}, 0, Linearizable},
		{"possibly deleted", []history.Op{first, {Key: k, Kind: history.Delete, Outcome: history.Unknown, Call: 1, Return: history.Never}, op(4, 5, 0, 2, -1, 0)}, 0, Linearizable},
		{"refunded", []history.Op{first, op(2, 3, -1, 2, -1, 0), op(4, 5, 2, 0, -1, 20)}, 0, Linearizable},
		{"refunded twice", []history.Op{first, op(2, 3, 1, 0, -1, 20), op(4, 5, -1, 1, -1, 10), op(6, 7, 0, 2, -1, 0)}, 0, Illegal},
		{"possibly refunded", []history.Op{first, {Key: k, Outcome: history.Unknown, Quantity: -1, Call: 1, Return: history.Never}, op(4, 5, 0, 2, -1, 0)}, 0, Linearizable},
		{"an unknown charge of more than the limit", []history.Op{{Key: k, Outcome: history.Unknown, Quantity: 3, Return: history.Never}, op(4, 5, 0, 2, -1, 0)}, 0, Linearizable},
	} {
		if got, _ := Linear(k, tt.ops, Clock{Behind: tt.behind}, soon); got != tt.want {
			t.Errorf("%s: got the verdict %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestFirstHalf checks that the first half of a legal history is legal.
func TestFirstHalf(t *testing.T) {
	for name, s := range sims() {
		ops := s.run(t, rand.New(rand.NewPCG(5, 5)))
		half := firstHalf(ops)
		if len(half) != len(ops)/2 {
			t.Errorf("%s: the first half has %d of %d requests, want half of them", name, len(half), len(ops))
		}
		clock := Clock{Behind: int64(s.stops) * int64(300*time.Millisecond)}
		if v, _ := Linear(&s.key, half, clock, soon); v != Linearizable {
			t.Errorf("%s: first half: got the verdict %s, want linearizable", name, v)
		}
	}
}

// TestUndecided checks that an undecided history is halved at most twice.
func TestUndecided(t *testing.T) {
	s := sims()["unknown"]
	ops := s.run(t, rand.New(rand.NewPCG(6, 6)))
	for decided, want := range map[int]Verdict{0: Undecided, len(ops): Linearizable, len(ops) / 2: Illegal, len(ops) / 4: Linearizable} {
		v, n := shrink(ops, func(ops []history.Op) Verdict {
			if len(ops) == decided {
				return want
			}
			return Undecided
		})
		if expected := max(decided, len(ops)/4); v != want || n != expected {
			t.Errorf("got the verdict %s for %d requests, want %s for %d", v, n, want, expected)
		}
	}
}
