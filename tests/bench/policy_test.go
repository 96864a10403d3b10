package main

import (
	"errors"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// policyOf returns the scheduling policy of the calling thread.
func policyOf(t *testing.T) uint32 {
	t.Helper()
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return attr.Policy
}

func TestSetThreadPolicy(t *testing.T) {
	runtime.LockOSThread() // not unlocked: the thread ends with the test
	for _, policy := range []uint32{unix.SCHED_BATCH, unix.SCHED_IDLE} {
		if err := setThreadPolicy(0, policy); err != nil {
			t.Fatal(err)
		}
		if got := policyOf(t); got != policy {
			t.Errorf("the thread has policy %d, want %d", got, policy)
		}
	}
}

func TestSetPolicy(t *testing.T) {
	if err := setPolicy(unix.SCHED_BATCH); err != nil {
		t.Fatal(err)
	}
	got := policyOf(t)
	if err := setPolicy(unix.SCHED_NORMAL); err != nil {
		t.Fatal(err)
	}
	if now := policyOf(t); got != unix.SCHED_BATCH || now != unix.SCHED_NORMAL {
		t.Errorf("the thread has policy %d and then %d, want %d and then %d", got, now, unix.SCHED_BATCH, unix.SCHED_NORMAL)
	}
}

func TestKeepAwake(t *testing.T) {
	failure := errors.New("failure")
	if err := keepAwake(func() error { return failure }); !errors.Is(err, failure) {
		t.Errorf("keepAwake returns %v, want the error of its function", err)
	}
}
