package history

import (
	"testing"
	"time"
)

func TestInterval(t *testing.T) {
	for _, tt := range []struct {
		count  int64
		period time.Duration
		want   int64
	}{
		{1, time.Second, 1e9},
		{3, time.Second, 333333334},
		{7, 2 * time.Second, 285714286},
		{1e9, time.Second, 1},
		{2e9, time.Second, 1},
	} {
		k := Key{Count: tt.count, Period: tt.period}
		if got := k.Interval(); got != tt.want {
			t.Errorf("%d per %s: interval %d, want %d", tt.count, tt.period, got, tt.want)
		}
	}
}

func TestByKey(t *testing.T) {
	a, b := &Key{Name: "a"}, &Key{Name: "b"}
	groups := ByKey([]Op{{Key: a, Call: 3}, {Key: b, Call: 2}, {Key: a, Call: 1, Client: 1}, {Key: a, Call: 1, Client: 2}})
	if len(groups) != 2 || len(groups[b]) != 1 {
		t.Fatalf("got %v, want two groups, with one request on key b", groups)
	}
	for i, client := range []int{1, 2, 0} {
		if groups[a][i].Client != client {
			t.Errorf("request %d is of client %d, want %d", i, groups[a][i].Client, client)
		}
	}
}

func TestKindsOfOps(t *testing.T) {
	for _, tt := range []struct {
		op            Op
		charges, only bool
	}{
		{Op{Quantity: 1}, true, true},
		{Op{Quantity: 0}, false, true},
		{Op{Quantity: 1, Outcome: Limited}, false, true},
		{Op{Quantity: 1, Outcome: Unknown}, false, true},
		{Op{Quantity: -1}, false, false},
		{Op{Kind: Delete, Quantity: 1}, false, false},
	} {
		if got := tt.op.Charges(); got != tt.charges {
			t.Errorf("%+v: Charges returns %t, want the opposite", tt.op, got)
		}
		if got := OnlyCharges([]Op{{}, tt.op}); got != tt.only {
			t.Errorf("%+v: OnlyCharges returns %t, want the opposite", tt.op, got)
		}
	}
}
