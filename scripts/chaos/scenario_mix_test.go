package main

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"
)

// TestFaults: each fault can be told from the others, and a fair share takes the leader away.
func TestFaults(t *testing.T) {
	names, kills := map[string]bool{}, 0
	for _, f := range faults {
		if names[f.name] || f.inflict == nil {
			t.Errorf("%q twice, or it does nothing", f.name)
		}
		names[f.name] = true
		if f.kills {
			kills++
		}
	}
	if len(faults) < 20 || kills < 5 {
		t.Errorf("%d faults, %d of which take the leader away", len(faults), kills)
	}
}

// TestSeed: the same seed draws the same.
func TestSeed(t *testing.T) {
	draw := func(seed uint64) (numbers [20]int) {
		l := newLab(settings{seed: seed}, &report{})
		for i := range numbers {
			numbers[i] = l.random.IntN(1000)
		}
		return numbers
	}
	if first, again := draw(7), draw(7); first != again || first == draw(8) {
		t.Error("what is drawn does not follow from the seed")
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		if d := between(r, time.Second, 2*time.Second); d < time.Second || d > 2*time.Second {
			t.Fatal(d)
		}
	}
}

func TestOwnOrTold(t *testing.T) {
	own, told := &lab{}, &lab{settings: settings{last: time.Second, times: 3}}
	if own.lasting(time.Minute) != time.Minute || told.lasting(time.Minute) != time.Second || own.repeated(9) != 9 || told.repeated(9) != 3 {
		t.Error("flags do not count")
	}
	first, second := errors.New("first"), errors.New("second")
	if firstOf(nil, first, second) != first || firstOf(nil, nil) != nil {
		t.Error("firstOf")
	}
}
