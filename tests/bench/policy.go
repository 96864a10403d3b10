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
func setPolicy(policy uint32) error {
	for {
		changed, err := changePolicies(policy)
		if err != nil || changed == 0 { // otherwise a changed thread may have started another one before
			return err
		}
	}
}

// changePolicies sets the scheduling policy of the threads of this process that have another one, and returns their number.
func changePolicies(policy uint32) (changed int, err error) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return 0, err
	}
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			return changed, err
		}
		attr, err := unix.SchedGetAttr(id, 0)
		if err == nil && attr.Policy != policy {
			changed++
			err = setThreadPolicy(id, policy)
		}
		if err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: the thread has exited
			return changed, err
		}
	}
	return changed, nil
}

// setThreadPolicy sets the scheduling policy of a thread. The id 0 is that of the calling thread.
func setThreadPolicy(id int, policy uint32) error {
	if err := unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: policy}, 0); err != nil {
		return fmt.Errorf("scheduling policy of a thread: %w", err)
	}
	return nil
}

// withoutIdle calls f while no processor is idle: a thread with the policy SCHED_IDLE loops on each. An idle processor, in
// particular that of a virtual machine, takes tens of microseconds to run a thread.
func withoutIdle(f func() error) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + runtime.NumCPU()))
	var stop atomic.Bool
	var loops sync.WaitGroup
	started := make(chan error)
	for range runtime.NumCPU() {
		loops.Go(func() { loopIdly(started, &stop) })
	}
	var err error
	for range runtime.NumCPU() {
		err = errors.Join(err, <-started)
	}
	if err == nil {
		err = f()
	}
	stop.Store(true)
	loops.Wait()
	return err
}

// loopIdly loops until stop, on a thread with SCHED_IDLE, which exits with the goroutine. The scheduler runs such threads on
// different processors.
func loopIdly(started chan<- error, stop *atomic.Bool) {
	runtime.LockOSThread()
	err := setThreadPolicy(0, unix.SCHED_IDLE)
	started <- err
	for err == nil && !stop.Load() {
	}
}
