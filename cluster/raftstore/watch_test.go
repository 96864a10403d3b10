package raftstore

import "testing"

func TestUnfinishedCounts(t *testing.T) {
	var w watch
	var s unfinishedCounts
	looks := func(want int) {
		t.Helper()
		for n := 1; ; n++ {
			if s.observe(&w) {
				if n != want {
					t.Errorf("an operation is reported as stuck at check %d; want at check %d (0: never)", n, want)
				}
				return
			}
			if n > 10*watchTicks {
				if want != 0 {
					t.Errorf("no operation is reported as stuck in %d checks; want one at check %d", n, want)
				}
				return
			}
		}
	}
	looks(0)
	first := w.begin(1)
	looks(watchTicks + 1)
	first.Store(0)
	looks(0)

	second := w.begin(1)
	for range watchTicks {
		s.observe(&w)
	}
	second.Store(0)
	third := w.begin(1) // reuses the slot of the finished operation
	looks(watchTicks + 1)
	third.Store(0)
	looks(0)

	long := w.begin(3)
	looks(3*watchTicks + 1)
	long.Store(0)
	looks(0)
}

// TestWatch_Many begins more operations than there are slots. The operations in the slots must still be
// detected as stuck.
func TestWatch_Many(t *testing.T) {
	var w watch
	for range watched {
		w.begin(1)
	}
	extra := w.begin(1)
	extra.Store(0)
	var s unfinishedCounts
	for range watchTicks {
		if s.observe(&w) {
			t.Fatal("an operation is reported as stuck before check watchTicks + 1")
		}
	}
	if !s.observe(&w) {
		t.Error("no operation is reported as stuck at check watchTicks + 1; want one")
	}
}
