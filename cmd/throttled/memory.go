package main

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"time"
)

const (
	heapBesideKeys = 64 << 20 // bytes for connections and all else
	garbageAllowed = 64 << 20 // bytes of garbage that are never worth a collection
	garbageShare   = 8        // of the memory for keys, the part that may be garbage
	paceEvery      = time.Second
)

// limitHeap makes the collector work harder before garbage takes the process far beyond
// maxmemory: what it lets go of for a moment while it grows a shard is not counted there.
func limitHeap(maxMemory int64) {
	limit := int64(math.MaxInt64)
	if maxMemory > 0 && maxMemory < math.MaxInt64/2 {
		limit = maxMemory + maxMemory/4 + heapBesideKeys
	}
	debug.SetMemoryLimit(limit)
}

// gcPercent returns how much garbage the collector should wait for, as a percentage of the
// heap. The usual hundred would double the memory of a large table, and there is nothing
// in a table that takes the collector time.
func gcPercent(used int64) int {
	allowed := max(garbageAllowed, used/garbageShare)
	return int(min(100, 100*allowed/max(used, 1)))
}

// paceCollector follows the size of the table with the collector's pace, until ctx ends.
// Somebody who sets GOGC knows better.
func paceCollector(ctx context.Context, used func() int64) {
	if _, set := os.LookupEnv("GOGC"); set {
		return
	}
	ticker := time.NewTicker(paceEvery)
	defer ticker.Stop()
	for current := 100; ; {
		if want := gcPercent(used()); want != current {
			debug.SetGCPercent(want)
			current = want
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
