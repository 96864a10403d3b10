package main

import (
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"time"
)

// TestFaults checks that the names of faults are unique, and that enough of them kill the leader.
func TestFaults(t *testing.T) {
	names, kills := map[string]bool{}, 0
	for _, f := range faults {
		if names[f.name] || f.inflict == nil {
			t.Errorf("fault %q: the name is used twice, or inflict is nil", f.name)
		}
		names[f.name] = true
		if f.kills {
			kills++
		}
	}
	if len(faults) < 20 || kills < 5 {
		t.Errorf("%d faults, %d of which kill the leader; want at least 20 and 5", len(faults), kills)
	}
}

// TestSeed checks that equal seeds produce equal random numbers.
func TestSeed(t *testing.T) {
	draw := func(seed uint64) (numbers [20]int) {
		l := newLab(settings{seed: seed}, &report{})
		for i := range numbers {
			numbers[i] = l.random.IntN(1000)
		}
		return numbers
	}
	if first, again := draw(7), draw(7); first != again || first == draw(8) {
		t.Error("the random numbers do not depend on the seed alone")
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		if d := between(r, time.Second, 2*time.Second); d < time.Second || d > 2*time.Second {
			t.Fatal(d)
		}
	}
}

func TestOwnOrGiven(t *testing.T) {
	own, bars := &lab{}, &lab{settings: settings{bars: true}}
	told := &lab{settings: settings{last: time.Second, times: 3, bars: true}}
	for _, tt := range []struct {
		l     *lab
		last  time.Duration
		times int
	}{{own, time.Minute, 9}, {bars, time.Minute, 50}, {told, time.Second, 3}} {
		if tt.l.lasting(time.Minute) != tt.last || tt.l.repeated(9, 50) != tt.times {
			t.Errorf("%+v: duration %s, %d repetitions; want the values of the flags -for and -times; without these flags, the repetitions of the bar if -bars is set, otherwise the defaults", tt.l.settings, tt.l.lasting(time.Minute), tt.l.repeated(9, 50))
		}
	}
	first, second := errors.New("first"), errors.New("second")
	if firstOf(nil, first, second) != first || firstOf(nil, nil) != nil {
		t.Error("firstOf does not return the first error, or nil if there is none")
	}
}

// TestEnough checks that mix continues until all required counts are reached, or for a minute if no
// count is required.
func TestEnough(t *testing.T) {
	for _, tt := range []struct {
		s               settings
		faults, decided int
		enough          bool
		lasts           time.Duration
	}{
		{settings{}, 1000, 1e9, false, mixFor},
		{settings{faults: 9}, 8, 1e9, false, mixMost},
		{settings{faults: 9}, 9, 0, true, mixMost},
		{settings{ops: 1000}, 0, 1009, false, mixMost},
		{settings{ops: 1000}, 0, 1010, true, mixMost},
		{settings{faults: 9, ops: 1000}, 9, 1000, false, mixMost},
		{settings{faults: 9, ops: 1000}, 9, 2000, true, mixMost},
	} {
		l := &lab{settings: tt.s}
		if got := l.enough(tt.faults, tt.decided); got != tt.enough || l.mixLasts() != tt.lasts {
			t.Errorf("%+v: %d faults and %d decisions are enough: %t; duration of mix: %s; want the values of the case", tt.s, tt.faults, tt.decided, got, l.mixLasts())
		}
	}
}

// TestDemand checks that a run below a required count fails.
func TestDemand(t *testing.T) {
	for _, tt := range []struct {
		got, least int
		failed     bool
	}{{0, 0, false}, {299, 300, true}, {300, 300, false}} {
		l := &lab{out: &report{w: io.Discard}}
		l.demand("faults", tt.got, tt.least)
		if l.out.failed() != tt.failed {
			t.Errorf("count %d, required count %d: the run has failed: %t; want a failure only below the required count", tt.got, tt.least, l.out.failed())
		}
	}
}

// TestAway checks that a short outage of the leader does not count as a kill.
func TestAway(t *testing.T) {
	for d, want := range map[time.Duration]int{200 * time.Millisecond: 0, awayAfter - 1: 0, awayAfter: 1, 3 * time.Second: 1} {
		var tr trial
		if tr.awayFor(d); tr.kills != want {
			t.Errorf("leader unreachable for %s: counted as %d kills; want 1 from awayAfter on, otherwise 0", d, tr.kills)
		}
	}
	var tr trial
	tr.countKill()
	tr.countKill() // another fault of the same leader at the same time
	if tr.kills != 1 {
		t.Errorf("two concurrent faults of one leader: counted as %d kills, want 1", tr.kills)
	}
	tr.killed = time.Now().Add(-awayAfter)
	if tr.countKill(); tr.kills != 2 {
		t.Errorf("consecutive faults of two leaders: counted as %d kills, want 2", tr.kills)
	}
}
