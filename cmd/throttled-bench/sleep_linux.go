package main

import "syscall"

const setTimerSlack = 29 // PR_SET_TIMERSLACK of prctl

// preciseSleep reduces the timer slack of the calling thread to 1 nanosecond. By default
// Linux extends sleeps by up to 50 microseconds to save power.
func preciseSleep() {
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, 1, 0)
}

// sleep sleeps for ns nanoseconds. It does not use the timers of the runtime, whose
// resolution is a millisecond while the program is idle.
func sleep(ns int64) {
	t := syscall.NsecToTimespec(ns)
	_ = syscall.Nanosleep(&t, nil) // a signal may interrupt it; the caller checks the clock
}
