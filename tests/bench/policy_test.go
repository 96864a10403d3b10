package main

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// threadsWith returns the number of threads of this process that have a scheduling policy, and of all threads.
func threadsWith(t *testing.T, policy uint32) (n, all int) {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			t.Fatal(err)
		}
		attr, err := unix.SchedGetAttr(id, 0)
		if errors.Is(err, unix.ESRCH) { // the thread has exited
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		all++
		if attr.Policy == policy {
			n++
		}
	}
	return n, all
}

// TestSetPolicy uses SCHED_BATCH, which a process without privileges may leave.
func TestSetPolicy(t *testing.T) {
	for _, policy := range []uint32{unix.SCHED_BATCH, unix.SCHED_NORMAL} {
		if err := setPolicy(policy); err != nil {
			t.Fatal(err)
		}
		if n, all := threadsWith(t, policy); n != all || n == 0 {
			t.Errorf("%d of %d threads have policy %d, want all", n, all, policy)
		}
	}
}

func TestWithoutIdle(t *testing.T) {
	failure := errors.New("failure")
	err := withoutIdle(func() error {
		if n, _ := threadsWith(t, unix.SCHED_IDLE); n != runtime.NumCPU() {
			t.Errorf("%d threads loop, want %d", n, runtime.NumCPU())
		}
		return failure
	})
	if !errors.Is(err, failure) {
		t.Errorf("withoutIdle returns %v, want the error of its function", err)
	}
}
