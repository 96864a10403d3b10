package main

import (
	"math"
	"testing"
)

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

func TestHeapLimit(t *testing.T) {
	const mib = 1 << 20
	f := func(maxMemory, used, want int64) {
		t.Helper()
		if got := heapLimit(maxMemory, used); got != want {
			t.Errorf("with maxmemory %d and %d used: %d, want %d", maxMemory, used, got, want)
		}
	}
	f(0, 100*mib, math.MaxInt64)
	f(256*mib, 0, 384*mib)
	f(256*mib, 256*mib, 384*mib)
	f(256*mib, 512*mib, 704*mib) // maxmemory was lowered
	f(math.MaxInt64, 0, math.MaxInt64)
}
