package main

import "runtime"

// spareProcessors is the number of processors of the Go runtime that are added for the goroutines of replication.
// Two were sufficient on a machine with two cores: with one, 1 % of heartbeats took over 80 ms under full
// load, and four were no better than two.
const spareProcessors = 2

// reserveProcessors raises GOMAXPROCS by spareProcessors and returns the old value: the maximum number of
// goroutines that run commands of clients concurrently. The operating system then shares the cores fairly
// between commands and replication, which the Go scheduler does not.
func reserveProcessors() int {
	cores := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(cores + spareProcessors)
	return cores
}
