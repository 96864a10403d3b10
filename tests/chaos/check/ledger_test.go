package check

import (
	"testing"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

func TestLedger(t *testing.T) {
	k := &history.Key{MaxBurst: 99, Count: 1, Period: 24 * time.Hour}
	ops := []history.Op{
		{Quantity: 3},
		{Quantity: 7},
		{Quantity: 0},
		{Quantity: 50, Outcome: history.Limited},
		{Quantity: 2, Outcome: history.Unknown},
		{Quantity: 3, Outcome: history.Unknown},
	}
	for _, tt := range []struct{ remaining, lost, extra int64 }{
		{100, 10, 0}, {91, 1, 0}, {90, 0, 0}, {87, 0, 0}, {85, 0, 0}, {84, 0, 1}, {0, 0, 85},
	} {
		a := Ledger(k, ops, tt.remaining)
		if a.Acknowledged != 10 || a.Open != 5 || a.Lost() != tt.lost || a.Extra() != tt.extra {
			t.Errorf("%d units remaining: the account is %s; want 10 acknowledged, 5 open, and the lost and extra units of the case", tt.remaining, a)
		}
	}
	const want = "10 acknowledged, 5 open, 9 in use: 1 lost, 0 too many"
	if got := Ledger(k, ops, 91).String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
