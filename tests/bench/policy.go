package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// setPolicy sets the scheduling policy of all threads of this process, and of the threads and programs that they start later.
// Threads with SCHED_IDLE run only while no thread with another policy can.
func setPolicy(policy uint32) error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			return err
		}
		if err := setThreadPolicy(id, policy); err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: the thread has exited
			return err
		}
	}
	return nil
}

// setThreadPolicy sets the scheduling policy of a thread. The id 0 is that of the calling thread.
func setThreadPolicy(id int, policy uint32) error {
	if err := unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: policy}, 0); err != nil {
		return fmt.Errorf("scheduling policy of a thread: %w", err)
	}
	return nil
}

// keepAwake calls f while all processors are kept from sleeping, by threads that run while no other thread can. A processor
// that sleeps, in particular that of a virtual machine, takes tens of microseconds to run a thread.
func keepAwake(f func() error) error {
	var stop atomic.Bool
	var loops sync.WaitGroup
	failed := make(chan error, runtime.NumCPU())
	for range runtime.NumCPU() {
		loops.Go(func() { failed <- loopIdly(&stop) })
	}
	err := f()
	stop.Store(true)
	loops.Wait()
	close(failed)
	for loopErr := range failed {
		err = errors.Join(err, loopErr)
	}
	return err
}

// loopIdly loops until stop, on a thread with SCHED_IDLE, which ends with the goroutine.
func loopIdly(stop *atomic.Bool) error {
	runtime.LockOSThread()
	if err := setThreadPolicy(0, unix.SCHED_IDLE); err != nil {
		return err
	}
	for !stop.Load() {
	}
	return nil
}
