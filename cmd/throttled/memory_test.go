package main

import (
	"io"
	"math"
	"net"
	"testing"
)

func TestGCPercent(t *testing.T) {
	const mib = 1 << 20
	f := func(used int64, want int) {
		t.Helper()
		if got := gcPercent(used); got != want {
			t.Errorf("GOGC with %d MiB of keys: %d %%, want %d", used/mib, got, want)
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
	f := func(m memoryUse, want int64) {
		t.Helper()
		if got := heapLimit(m); got != want {
			t.Errorf("heapLimit(%+v) = %d, want %d", m, got, want)
		}
	}
	f(memoryUse{keys: 100 * mib, clients: 100 * mib}, math.MaxInt64)
	f(memoryUse{maxClients: 256 * mib}, 296*mib)
	f(memoryUse{keys: 100 * mib, maxClients: 256 * mib}, 496*mib)
	f(memoryUse{maxClients: 256 * mib, rules: 600 * mib}, 896*mib)
	f(memoryUse{maxMemory: 256 * mib}, 360*mib)
	f(memoryUse{maxMemory: 256 * mib, keys: 256 * mib}, 360*mib)
	f(memoryUse{maxMemory: 256 * mib, keys: 256 * mib, maxClients: 256 * mib, clients: 200 * mib}, 616*mib)
	f(memoryUse{maxMemory: 256 * mib, keys: 512 * mib}, 680*mib)                           // maxmemory was lowered
	f(memoryUse{maxMemory: 256 * mib, clients: 500 * mib}, 1360*mib)                       // clients have no limit
	f(memoryUse{maxMemory: 256 * mib, maxClients: 256 * mib, clients: 300 * mib}, 660*mib) // some clients are exempt
	f(memoryUse{maxMemory: math.MaxInt64}, math.MaxInt64)
	f(memoryUse{maxMemory: 256 * mib, maxClients: math.MaxInt64}, math.MaxInt64)
	f(memoryUse{maxMemory: 256 * mib, clients: math.MaxInt64}, math.MaxInt64)
}

// TestCollectorStaysBelowTheBound checks two limits for a table that fills maxmemory. The
// soft limit, plus 16 MiB for the program itself, is at most 1.25 times maxmemory plus
// 64 MiB. With the GOGC of gcPercent, a collection starts before the heap exceeds 1.125
// times maxmemory plus 16 MiB. Such a heap is below the soft limit, at which the collector would run
// continuously.
func TestCollectorStaysBelowTheBound(t *testing.T) {
	const mib, program = 1 << 20, 16 << 20
	for maxMemory := int64(mib); maxMemory < 1<<40; maxMemory += maxMemory / 3 {
		bound := maxMemory + maxMemory/4 + 64*mib
		if limit := heapLimit(memoryUse{maxMemory: maxMemory, keys: maxMemory}); limit+program > bound {
			t.Errorf("with maxmemory %d the soft limit is %d, want at most %d", maxMemory, limit, bound-program)
		}
		if heap := maxMemory + maxMemory*int64(gcPercent(maxMemory))/100; heap > maxMemory+maxMemory/8+garbageAllowed {
			t.Errorf("with maxmemory %d a collection starts at a heap of %d bytes, want at most 9/8 of maxmemory plus 16 MiB", maxMemory, heap)
		}
	}
}

// TestMemoryUse checks that memoryUse returns the limits, and the memory of keys and
// clients, of a running program.
func TestMemoryUse(t *testing.T) {
	r := start(t, "--maxmemory", "10mb", "--maxmemory-clients", "0")
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "CL.THROTTLE k 1 1 1d\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if m := r.memoryUse(); m.maxMemory != 10<<20 || m.keys == 0 || m.maxClients != 0 || m.clients == 0 {
		t.Errorf("memoryUse() = %+v; want maxMemory 10 MiB, maxClients 0, and more than 0 for keys and clients", m)
	}
}
