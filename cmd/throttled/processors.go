package main

import "runtime"

// spareProcessors is the number by which GOMAXPROCS is raised for the goroutines of replication. Measured on a machine
// with two cores under full load: with one spare processor, 1 % of the heartbeats took longer than 80 ms. Two spare
// processors were sufficient to avoid this, and four were no better.
const spareProcessors = 2

// reserveProcessors raises GOMAXPROCS by spareProcessors and returns the old value, which becomes the maximum number of
// goroutines that run client commands concurrently. The operating system then shares the cores fairly between commands
// and replication, which the Go scheduler does not.
func reserveProcessors() int {
	cores := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(cores + spareProcessors)
	return cores
}
