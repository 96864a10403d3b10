package main

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"time"
)

const (
	heapBesideKeys = 40 << 20 // bytes for everything except keys and clients, including memory outside the heap
	garbageAllowed = 16 << 20 // bytes of garbage that do not trigger a collection
	garbageShare   = 8        // 1/garbageShare of the memory for keys may be garbage
	paceEvery      = 100 * time.Millisecond
)

// memoryUse holds the memory use and the limits of keys and clients, in bytes. A limit of 0 means no limit.
// The memory of rules has no limit besides the size of their text.
type memoryUse struct{ maxMemory, keys, maxClients, clients, rules int64 }

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
// The memory of rules is added to the soft limit. It includes the memory to compile a set, during which the collector
// would otherwise run continuously and delay requests.
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
	return keys + heapBesideKeys + clients + m.rules
}

// gcPercent returns the GOGC percentage for a table that uses the given number of bytes. With the default of 100,
// garbage could use as much memory as the table, however large it is. Frequent collections are cheap, since the
// collector does not scan the contents of a table.
func gcPercent(used int64) int {
	allowed := max(garbageAllowed, used/garbageShare)
	return int(min(100, 100*allowed/max(used, 1)))
}

// paceCollector adapts the garbage collector to the memory use until ctx is canceled. GOGC and GOMEMLIMIT are not
// overridden if they are set in the environment.
func paceCollector(ctx context.Context, use func() memoryUse) {
	_, percentSet := os.LookupEnv("GOGC")
	_, limitSet := os.LookupEnv("GOMEMLIMIT")
	ticker := time.NewTicker(paceEvery)
	defer ticker.Stop()
	percent, limit := 100, int64(math.MaxInt64)
	for {
		m := use()
		if want := gcPercent(m.keys); want != percent && !percentSet {
			debug.SetGCPercent(want)
			percent = want
		}
		if want := heapLimit(m); want != limit && !limitSet {
			debug.SetMemoryLimit(want)
			limit = want
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
