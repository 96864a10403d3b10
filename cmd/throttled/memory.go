package main

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"time"
)

const (
	heapBesideKeys = 40 << 20 // bytes for all else but clients; the program itself takes some that the heap does not count
	garbageAllowed = 16 << 20 // bytes of garbage that are never worth a collection
	garbageShare   = 8        // of the memory for keys, the part that may be garbage
	paceEvery      = 100 * time.Millisecond
)

// memoryUse is what keys and clients take, and may take, in bytes. A limit of 0 is none.
type memoryUse struct{ maxMemory, keys, maxClients, clients int64 }

// heapLimit returns the soft limit of the heap: it makes the collector work harder before
// garbage takes the process far beyond maxmemory and what clients may take, since what the table
// lets go of for a moment while it grows a shard is not counted there, nor are the buffers that
// clients have outgrown. A table that is larger, because maxmemory was lowered, must not have the
// collector run without end, nor one without a limit, which grows before the next look. The same
// is true of clients, of which some may be exempt from their limit.
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
	return keys + heapBesideKeys + clients
}

// gcPercent returns how much garbage the collector should wait for, as a percentage of the
// heap. The usual hundred would double the memory of a large table, and there is nothing
// in a table that takes the collector time.
func gcPercent(used int64) int {
	allowed := max(garbageAllowed, used/garbageShare)
	return int(min(100, 100*allowed/max(used, 1)))
}

// paceCollector follows the size of the table and its limit, until ctx ends. Somebody who
// sets GOGC or GOMEMLIMIT knows better.
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
