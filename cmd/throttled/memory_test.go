package main

import (
	"io"
	"math"
	"net"
	"os"
	"runtime/debug"
	"testing"
	"time"
)

func TestGCPercent(t *testing.T) {
	const mib = 1 << 20
	f := func(used int64, want int) {
		t.Helper()
		if got := gcPercent(memoryUse{keys: used}); got != want {
			t.Errorf("GOGC with %d MiB of keys: %d %%, want %d", used/mib, got, want)
		}
	}
	f(0, 300)
	f(1*mib, 300)
	f(2*mib, 200)
	f(4*mib, 200)
	f(5*mib, 100)
	f(16*mib, 100)
	f(64*mib, 25)
	f(128*mib, 12)
	f(512*mib, 12)
	f(1<<40, 12)
	for _, m := range []memoryUse{{clients: 5 * mib}, {rules: 300 * mib}, {clients: 1 << 40}} {
		if got := gcPercent(m); got != 100 {
			t.Errorf("GOGC with %+v: %d %%, want 100", m, got)
		}
	}
	if got := gcPercent(memoryUse{keys: 512 * mib, compiling: 1}); got != compilePercent {
		t.Errorf("GOGC while rules are compiled: %d %%, want %d", got, compilePercent)
	}
}

// TestPace_Exceeds checks that the garbage is collected first if the new settings do not allow the memory in use.
func TestPace_Exceeds(t *testing.T) {
	for _, tt := range []struct {
		name      string
		now, next pace
		inUse     int64
		want      bool
	}{
		{"a set was compiled", pace{compilePercent, 900}, pace{100, 900}, 10, true},
		{"a set is compiled", pace{100, 900}, pace{compilePercent, 2000}, 10, false},
		{"the table has grown", pace{100, 900}, pace{50, 950}, 800, false},
		{"the limit is lowered, above the memory in use", pace{100, 900}, pace{100, 800}, 700, false},
		{"the limit is lowered, below the memory in use", pace{100, 900}, pace{100, 600}, 700, true},
		{"the limit is raised, below the memory in use", pace{100, 500}, pace{100, 600}, 700, false},
	} {
		if got := tt.now.exceeds(tt.next, tt.inUse); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
}

// TestCompileMemory checks that the memory to compile a set counts until a time after the set was compiled.
func TestCompileMemory(t *testing.T) {
	var c compileMemory
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		after           time.Duration
		compiling, want int64
	}{
		{0, 0, 0}, {time.Second, 500, 500}, {2 * time.Second, 300, 300}, {2*time.Second + afterCompile - 1, 0, 300},
		{2*time.Second + afterCompile, 0, 0}, {time.Minute, 0, 0},
	} {
		if got := c.extend(memoryUse{keys: 7, compiling: step.compiling}, start.Add(step.after)); got != (memoryUse{keys: 7, compiling: step.want}) {
			t.Errorf("after %v: %+v, want %d bytes to compile sets", step.after, got, step.want)
		}
	}
}

// garbage is memory that the collector cannot free before it is set to nil.
var garbage []byte

// TestPace_Change checks that a soft memory limit below the memory in use is set after the garbage has been collected and
// returned to the operating system: no collection is left to the goroutines that allocate memory.
func TestPace_Change(t *testing.T) {
	const size = 256 << 20
	now := pace{compilePercent, math.MaxInt64}
	pace{100, math.MaxInt64}.change(now)
	garbage = make([]byte, size)
	for i := 0; i < len(garbage); i += os.Getpagesize() {
		garbage[i] = 1 // the memory is in use
	}
	before := memoryInUse()
	garbage = nil
	next := pace{100, before - size/2}
	now.change(next)
	defer next.change(pace{100, math.MaxInt64})
	if got := memoryInUse(); got > next.limit {
		t.Errorf("%d bytes are in use after the limit was lowered to %d; %d were before", got, next.limit, before)
	}
	if got := debug.SetGCPercent(100); got != 100 {
		t.Errorf("GOGC is %d after the change, want 100", got)
	}
	if got := debug.SetMemoryLimit(-1); got != next.limit {
		t.Errorf("the soft limit is %d after the change, want %d", got, next.limit)
	}
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
	f(memoryUse{maxClients: 256 * mib, rules: 100 * mib, compiling: 500 * mib}, 896*mib)
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
		if heap := maxMemory + maxMemory*int64(gcPercent(memoryUse{keys: maxMemory}))/100; heap > maxMemory+maxMemory/8+garbageAllowed {
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
