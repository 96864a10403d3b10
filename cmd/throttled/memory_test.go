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
	f(16*mib, 100)
	f(64*mib, 25)
	f(128*mib, 12)
	f(512*mib, 12)
	f(1<<40, 12)
}

func TestHeapLimit(t *testing.T) {
	const mib = 1 << 20
	f := func(maxMemory, used, clients, want int64) {
		t.Helper()
		if got := heapLimit(maxMemory, used, clients); got != want {
			t.Errorf("with maxmemory %d, %d used and %d for clients: %d, want %d", maxMemory, used, clients, got, want)
		}
	}
	f(0, 100*mib, 0, math.MaxInt64)
	f(0, 0, 256*mib, 296*mib)
	f(0, 100*mib, 256*mib, 496*mib)
	f(256*mib, 0, 0, 360*mib)
	f(256*mib, 256*mib, 0, 360*mib)
	f(256*mib, 256*mib, 256*mib, 616*mib)
	f(256*mib, 512*mib, 0, 680*mib) // maxmemory was lowered
	f(math.MaxInt64, 0, 0, math.MaxInt64)
	f(256*mib, 0, math.MaxInt64, math.MaxInt64)
}

// Garbage is collected long before the soft limit makes the collector work without end, and the
// soft limit leaves room for the program itself within 1.25 times maxmemory and 64 MiB.
func TestCollectorStaysBelowTheBound(t *testing.T) {
	const mib, program = 1 << 20, 16 << 20
	for maxMemory := int64(mib); maxMemory < 1<<40; maxMemory += maxMemory / 3 {
		bound := maxMemory + maxMemory/4 + 64*mib
		if limit := heapLimit(maxMemory, maxMemory, 0); limit+program > bound {
			t.Errorf("with maxmemory %d the soft limit is %d, above %d", maxMemory, limit, bound-program)
		}
		if heap := maxMemory + maxMemory*int64(gcPercent(maxMemory))/100; heap > maxMemory+maxMemory/8+garbageAllowed {
			t.Errorf("with maxmemory %d the heap grows to %d", maxMemory, heap)
		}
	}
}
