package main

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/throttledhq/throttled/internal/background"
)

const (
	heapBesideKeys = 40 << 20 // bytes for everything except keys and clients, including memory outside the heap
	garbageAllowed = 16 << 20 // bytes of garbage that do not trigger a collection
	garbageShare   = 8        // 1/garbageShare of the memory for keys may be garbage
	compilePercent = 400      // GOGC while a set of rules is compiled
	smallPercent   = 300      // maximum GOGC of a small heap
	programHeap    = 4 << 20  // bytes of the heap in use besides keys, clients and rules
	paceEvery      = 100 * time.Millisecond
	afterCompile   = time.Second // after which the set that a compiled set replaces is no longer in use
)

// memoryUse holds the memory use and the limits of keys and clients, in bytes. A limit of 0 means no limit. The memory of
// rules has no limit besides the size of their text.
type memoryUse struct {
	maxMemory, keys     int64
	maxClients, clients int64
	rules               int64 // of the active set
	compiling           int64 // that sets need while they are compiled, with garbage
}

// heapLimit returns the soft memory limit for the Go runtime. Near this limit the collector runs more often, so that
// garbage does not take the process far beyond maxmemory plus maxmemory-clients. These two options do not count
// garbage, such as the old memory of a shard that has grown, and buffers that clients have outgrown.
//
// If the table is larger than maxmemory, because maxmemory was lowered, the soft limit is based on the actual size of
// the table. If only maxmemory-clients is set, the soft limit allows the table to double before heapLimit is called
// again. With a lower soft limit, the collector would run continuously in both cases. The same two
// rules apply to the memory of clients and maxmemory-clients. The memory of clients may exceed this option because some
// clients are exempt. If neither option is set, there is no soft limit.
//
// The memory of rules, and the memory to compile a set, are added to the soft limit. The collector would otherwise run
// continuously while a set is compiled.
func heapLimit(m memoryUse) int64 {
	const most = math.MaxInt64 / 8
	keys, clients := max(m.maxMemory, m.keys), max(m.maxClients, m.clients)
	if keys >= most || clients >= most || m.maxMemory == 0 && m.maxClients == 0 {
		return math.MaxInt64
	}
	if m.maxMemory == 0 {
		keys *= 2
	} else {
		keys += keys / 4
	}
	if m.maxClients == 0 {
		clients *= 2
	}
	return keys + heapBesideKeys + clients + m.rules + m.compiling
}

// gcPercent returns the GOGC percentage. With the default of 100, garbage could use as much memory as the table, however
// large it is. Frequent collections are cheap, since the collector does not scan the contents of a table. While a set of
// rules is compiled, they are expensive: nearly all of its memory stays in use, and is scanned by each collection.
func gcPercent(m memoryUse) int {
	if m.compiling > 0 {
		return compilePercent
	}
	allowed := max(garbageAllowed, m.keys/garbageShare)
	return int(max(smallHeapPercent(m), min(100, 100*allowed/max(m.keys, 1))))
}

// smallHeapPercent returns the GOGC percentage with which garbageAllowed bytes of garbage do not trigger a collection of a
// small heap, or 0 if the heap is not small. With 100 %, the HTTP server would cause ten collections per second, each of
// which delays all requests. The result is a multiple of 100, since a change of GOGC stops all goroutines.
func smallHeapPercent(m memoryUse) int64 {
	inUse := m.keys + m.clients + m.rules + programHeap
	return min(smallPercent, garbageAllowed/inUse*100)
}

// pace is the settings of the garbage collector.
type pace struct {
	percent int   // GOGC
	limit   int64 // soft memory limit, in bytes
}

func paceFor(m memoryUse) pace { return pace{gcPercent(m), heapLimit(m)} }

// exceeds reports whether the memory in use, in bytes, is more than the settings next allow, so that next must not replace
// the settings p before the garbage has been collected. The runtime would otherwise enforce them in the goroutines that
// allocate memory: these would mark objects and return memory to the operating system, and requests would wait for up to
// 300 ms after a large set of rules was compiled.
func (p pace) exceeds(next pace, inUse int64) bool {
	compiled := p.percent == compilePercent && next.percent < p.percent
	return compiled || next.limit < p.limit && next.limit < inUse
}

// memoryInUse returns the memory of the process that the soft memory limit includes, in bytes.
func memoryInUse() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64())
}

// change replaces the settings p of the collector.
func (p pace) change(next pace) {
	if p.exceeds(next, memoryInUse()) {
		background.Run(debug.FreeOSMemory)
	}
	if next.percent != p.percent {
		debug.SetGCPercent(next.percent)
	}
	if next.limit != p.limit {
		debug.SetMemoryLimit(next.limit)
	}
}

// compileMemory is the memory to compile sets at a time.
type compileMemory struct {
	bytes int64
	at    time.Time
}

// extend returns m with the memory to compile sets, also for the time afterCompile after they were compiled. A collection
// then frees both the garbage and the set that was replaced.
func (c *compileMemory) extend(m memoryUse, now time.Time) memoryUse {
	if m.compiling > 0 {
		*c = compileMemory{m.compiling, now}
	} else if now.Sub(c.at) < afterCompile {
		m.compiling = c.bytes
	}
	return m
}

// paceCollector adapts the garbage collector to the memory use until ctx is canceled. GOGC and GOMEMLIMIT are not
// overridden if they are set in the environment.
func paceCollector(ctx context.Context, use func() memoryUse) {
	_, percentSet := os.LookupEnv("GOGC")
	_, limitSet := os.LookupEnv("GOMEMLIMIT")
	ticker := time.NewTicker(paceEvery)
	defer ticker.Stop()
	now := pace{percent: 100, limit: math.MaxInt64}
	var compiled compileMemory
	for {
		next := paceFor(compiled.extend(use(), time.Now()))
		if percentSet {
			next.percent = now.percent
		}
		if limitSet {
			next.limit = now.limit
		}
		if next != now {
			now.change(next)
			now = next
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
