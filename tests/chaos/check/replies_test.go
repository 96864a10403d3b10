package check

import (
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

// slowStale reports whether one reply is stale by the definition of Replies.
func slowStale(k *history.Key, ops []history.Op, o *history.Op, slack Slack) bool {
	if o.Outcome == history.Unknown {
		return false
	}
	least := new(big.Int)
	for i := range ops {
		units := int64(0)
		for j := range ops {
			if ops[j].Charges() && ops[j].Call >= ops[i].Call && ops[j].Return < o.Call {
				units += ops[j].Quantity
			}
		}
		if units == 0 {
			continue
		}
		used := new(big.Int).Mul(big.NewInt(units), big.NewInt(k.Interval()))
		used.Sub(used, big.NewInt(slack.end(o.Return)-slack.begin(ops[i].Call)))
		if used.Cmp(least) > 0 {
			least = used
		}
	}
	if least.Sign() == 0 {
		return false
	}
	if o.Charges() {
		least.Add(least, new(big.Int).Mul(big.NewInt(o.Quantity), big.NewInt(k.Interval())))
	}
	free := new(big.Int).Mul(big.NewInt(k.Limit()-o.Remaining), big.NewInt(k.Interval()))
	if o.Outcome == history.Limited && o.Remaining == 0 {
		free = least
	}
	reset := new(big.Int).Mul(big.NewInt(o.ResetAfter), big.NewInt(1e9))
	return least.Cmp(free) > 0 || least.Cmp(reset) > 0
}

func staleAgree(t *testing.T, k *history.Key, ops []history.Op, slack Slack) []Stale {
	t.Helper()
	got := Replies(k, ops, slack)
	want := 0
	for i := range ops {
		if slowStale(k, ops, &ops[i], slack) {
			want++
		}
	}
	if len(got) != want {
		t.Errorf("Replies reports %d of %d replies as stale, want %d", len(got), len(ops), want)
	}
	return got
}

// TestRepliesAreSound checks that Replies reports no reply of a correct limiter as stale.
func TestRepliesAreSound(t *testing.T) {
	for name, s := range sims() {
		for seed := range uint64(20) {
			ops := s.run(t, rand.New(rand.NewPCG(seed, 2)))
			if got := staleAgree(t, &s.key, ops[:min(len(ops), 50)], Slack{}); len(got) > 0 {
				t.Errorf("%s, seed %d, first 50 requests: a correct reply is reported as stale: %s", name, seed, got[0])
			}
			if got := Replies(&s.key, ops, Slack{}); len(got) > 0 {
				t.Errorf("%s, seed %d: a correct reply is reported as stale: %s", name, seed, got[0])
			}
		}
	}
}

// TestRepliesNotice checks that Replies detects lost charges long before more than the limit is
// granted.
func TestRepliesNotice(t *testing.T) {
	s := sims()["daily"]
	s.broken = func(op int, tat uint64) uint64 {
		if op == 20 {
			return 0
		}
		return tat
	}
	ops := s.run(t, rand.New(rand.NewPCG(1, 1)))[:40]
	if got := Interval(&s.key, ops, Slack{}); got.Violated {
		t.Errorf("Interval reports a violation before the limit is reached: %s", got)
	}
	if got := staleAgree(t, &s.key, ops, Slack{}); len(got) == 0 {
		t.Error("the lost charges are not detected: no reply is stale")
	}
}

func TestRepliesExamples(t *testing.T) {
	const sec = int64(time.Second)
	k := &history.Key{MaxBurst: 9, Count: 1, Period: time.Second}
	charge := history.Op{Key: k, Call: 0, Return: sec, Quantity: 4, Remaining: 6, ResetAfter: 4}
	for _, tt := range []struct {
		name  string
		op    history.Op
		stale bool
	}{
		{"a peek that includes the charge", history.Op{Call: sec + 1, Return: 2 * sec, Remaining: 8, ResetAfter: 2}, false},
		{"a peek with too many remaining units", history.Op{Call: sec + 1, Return: 2 * sec, Remaining: 9, ResetAfter: 2}, true},
		{"a peek that resets too soon", history.Op{Call: sec + 1, Return: 2 * sec, Remaining: 8, ResetAfter: 1}, true},
		{"a peek at the same time", history.Op{Call: sec, Return: 2 * sec, Remaining: 10}, false},
		{"a peek that takes longer", history.Op{Call: sec + 1, Return: 5 * sec, Remaining: 10}, false},
		{"a charge that includes the first", history.Op{Call: sec + 1, Return: 2 * sec, Quantity: 1, Remaining: 7, ResetAfter: 3}, false},
		{"a charge that misses the first", history.Op{Call: sec + 1, Return: 2 * sec, Quantity: 1, Remaining: 9, ResetAfter: 1}, true},
		{"a refusal that includes the charge", history.Op{Call: sec + 1, Return: 2 * sec, Quantity: 9, Outcome: history.Limited, Remaining: 8, ResetAfter: 2}, false},
		{"a refusal that misses the charge", history.Op{Call: sec + 1, Return: 2 * sec, Quantity: 11, Outcome: history.Limited, Remaining: 10}, true},
		{"a refusal with 0 remaining units", history.Op{Call: sec + 1, Return: 2 * sec, Quantity: 9, Outcome: history.Limited, ResetAfter: 10}, false},
		{"no reply", history.Op{Call: sec + 1, Return: history.Never, Outcome: history.Unknown}, false},
	} {
		tt.op.Key = k
		if got := staleAgree(t, k, []history.Op{charge, tt.op}, Slack{}); len(got) > 0 != tt.stale {
			t.Errorf("%s: stale replies: %v; want one only if the reply of the case is stale", tt.name, got)
		}
	}
}

// FuzzReplies compares Replies with slowStale on arbitrary histories.
func FuzzReplies(f *testing.F) {
	f.Add(int64(9), int64(1), uint8(20), []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 0})
	f.Add(int64(3), int64(2), uint8(5), []byte{0, 0, 4, 9, 0, 1, 0, 4, 9, 0, 1, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, burst, count int64, period uint8, data []byte) {
		k := &history.Key{MaxBurst: burst & 0xff, Count: 1 + count&0xff, Period: 1 + time.Duration(period)}
		ops, now := []history.Op{}, int64(0)
		for ; len(data) >= 5 && len(ops) < 30; data = data[5:] {
			now += int64(data[0] >> 3)
			ops = append(ops, history.Op{
				Key: k, Call: now, Return: now + int64(data[1]>>3), Quantity: int64(data[2] >> 4),
				Outcome: history.Outcome(data[2] & 3 % 3), Remaining: int64(data[3]), ResetAfter: int64(data[4] & 1),
			})
		}
		staleAgree(t, k, ops, Slack{Ahead: time.Duration(period & 1)})
	})
}
