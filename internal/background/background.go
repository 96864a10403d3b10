// Package background runs long computations without delay for the other goroutines.
//
// A computation that runs for seconds occupies one of the processors of the Go scheduler, and its garbage occupies a part of
// another one. A Go program whose processors are all occupied reads from its connections every 10 ms only. On a machine with
// two cores, requests would wait for as long. [Run] gives the computation processors of its own. The operating system then
// divides the cores among all threads.
//
// The runtime no longer adapts GOMAXPROCS to a changed CPU limit of the container after the first call of Run.
package background

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
)

// niceness is added to the niceness of the threads of computations. Other threads have 0 by default, and 19 is the lowest
// priority. A higher niceness would delay the garbage collector, which must wait for each thread at the start and at the end of a
// collection.
const niceness = 10

// spareProcessors is added to GOMAXPROCS: one for the computation, and one for the garbage collector, which uses a quarter
// of the processors. With four or more, it uses whole ones, and does not occupy the others in turn.
const spareProcessors = 2

// processors guards changes of GOMAXPROCS.
var processors sync.Mutex

// Run calls f on a thread with a low priority, and returns after f. A panic of f becomes a panic of Run, with the stack of
// f in its value. Meanwhile, GOMAXPROCS is raised by spareProcessors. The priority is changed on Linux only. Run may be
// called concurrently.
func Run(f func()) {
	if failure := <-Start(f); failure != nil {
		panic(failure)
	}
}

// Start is like Run, but does not wait. The channel receives a value after f: nil, or the panic of f as an error.
func Start(f func()) <-chan error {
	addProcessors(spareProcessors)
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread exits with the goroutine, because its priority cannot be restored
		lowerPriority()
		failure := call(f)
		addProcessors(-spareProcessors)
		done <- failure
	}()
	return done
}

// call calls f, and returns its panic as an error.
func call(f func()) (failure error) {
	defer func() {
		if p := recover(); p != nil {
			failure = fmt.Errorf("%v\n%s", p, debug.Stack())
		}
	}()
	f()
	return nil
}

// addProcessors adds n to GOMAXPROCS.
func addProcessors(n int) {
	processors.Lock()
	defer processors.Unlock()
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + n)
}
