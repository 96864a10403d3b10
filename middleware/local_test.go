package middleware

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

func TestLocal_RestoresUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocal(1, 100)
		r := keyed("k", Limit{Name: "n", Count: 2, Period: time.Minute, Burst: 3})
		for i, want := range []State{
			{"n", true, 3, 2, -1, 30 * time.Second}, {"n", true, 3, 1, -1, 60 * time.Second}, {"n", true, 3, 0, -1, 90 * time.Second},
			{"n", false, 3, 0, 30 * time.Second, 90 * time.Second},
		} {
			if got := l.decide(&r); got.State != want || len(got.Limits) != 1 {
				t.Errorf("request %d: got %+v, want %+v", i, got.State, want)
			}
		}
		time.Sleep(30*time.Second - 1) // virtual time
		if d := l.decide(&r); d.Admitted || d.RetryAfter != 1 {
			t.Errorf("1 ns too early: %+v", d)
		}
		time.Sleep(time.Nanosecond) // virtual time
		if d := l.decide(&r); !d.Admitted {
			t.Errorf("in time: %+v", d)
		}
		r.Cost = 4
		if d := l.decide(&r); d.Admitted || d.RetryAfter >= 0 {
			t.Errorf("more than the whole limit: %+v", d)
		}
		r.Cost = -3
		if d := l.decide(&r); !d.Admitted || d.Remaining != 3 || len(l.tats) != 0 {
			t.Errorf("refund: %+v", d)
		}
	})
}

// TestLocal_AllOrNone checks that a request which one limit refuses charges none.
func TestLocal_AllOrNone(t *testing.T) {
	l := newLocal(1, 100)
	wide, narrow := PerHour(10), PerHour(1)
	wide.Key, narrow.Key, narrow.Name = "wide", "narrow", "narrow"
	r := Request{Limits: []Limit{wide, narrow}}
	for range 5 {
		l.decide(&r)
	}
	if d := l.decide(&r); d.Admitted || d.Name != "narrow" || d.Limits[0].Remaining != 8 {
		t.Errorf("got %+v", d) // the wide limit shows the state after this request, if it were admitted
	}
}

// TestLocal_Share checks that shares of n processes admit at most the limit together, apart from bursts of less than n.
func TestLocal_Share(t *testing.T) {
	for processes := 1; processes <= 16; processes++ {
		admitted := 0
		for range processes {
			l, r := newLocal(1/float64(processes), 100), keyed("k", PerHour(1000))
			for range 1000 {
				if l.decide(&r).Admitted {
					admitted++
				}
			}
		}
		if admitted > 1000 || admitted < 1000-processes-1 {
			t.Errorf("%d processes have admitted %d requests, want 1000", processes, admitted)
		}
	}
}

func TestLocal_BoundsItsMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocal(1, 1000)
		attacker := keyed("attacker", PerHour(1000))
		attacker.Cost = 1000
		l.decide(&attacker)
		for i := range 20_000 {
			r := keyed(fmt.Sprint(i), PerHour(1000))
			l.decide(&r)
			time.Sleep(time.Millisecond) // virtual time
		}
		if len(l.tats) != 1000 {
			t.Errorf("%d keys, want 1000", len(l.tats))
		}
		if d := l.decide(&attacker); d.Admitted {
			t.Error("the key that has used the most was evicted")
		}
	})
}

// TestLocal_ExtremeLimits checks that no limit causes an overflow.
func TestLocal_ExtremeLimits(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	l := newLocal(0.001, 10)
	for range 100_000 {
		limit := Limit{Key: "k", Count: 1 + random.Int64()>>random.IntN(63), Burst: random.Int64() >> random.IntN(63),
			Period: time.Duration(1+random.Int64()>>random.IntN(63)) &^ 1}
		r := Request{Limits: []Limit{limit}, Cost: random.Int64() >> random.IntN(63)}
		d := l.decide(&r)
		if d.Remaining < 0 || d.ResetAfter < 0 || d.Limit < 1 || d.Admitted != (d.RetryAfter < 0) && r.cost() <= d.Limit {
			t.Fatalf("%+v: %+v", r, d)
		}
	}
}

// TestOutranks checks which of two limits decides a request.
func TestOutranks(t *testing.T) {
	ordered := []State{ // each outranks those that follow it
		{RetryAfter: -1},
		{RetryAfter: 2 * time.Second},
		{RetryAfter: time.Second},
		{Admitted: true, Remaining: 1, ResetAfter: 3 * time.Second},
		{Admitted: true, Remaining: 1, ResetAfter: 2 * time.Second},
		{Admitted: true, Remaining: 2, ResetAfter: 4 * time.Second},
	}
	for i := range ordered {
		for j := range ordered {
			if got := outranks(&ordered[i], &ordered[j]); got != (i < j) {
				t.Errorf("outranks(%+v, %+v) is %v, want %v", ordered[i], ordered[j], got, i < j)
			}
		}
	}
}
