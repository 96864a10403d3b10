package main

import "testing"

func TestGCPercent(t *testing.T) {
	const mib = 1 << 20
	f := func(used int64, want int) {
		t.Helper()
		if got := gcPercent(used); got != want {
			t.Errorf("with %d MiB of keys: %d %%, want %d", used/mib, got, want)
		}
	}
	f(0, 100)
	f(64*mib, 100)
	f(128*mib, 50)
	f(512*mib, 12)
	f(1<<40, 12)
}
