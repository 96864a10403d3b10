package main

import "syscall"

const setTimerSlack = 29 // PR_SET_TIMERSLACK of prctl

// preciseSleep makes the sleeps of the calling thread end on time: Linux otherwise lets
// them go on for up to 50 microseconds, to save power.
func preciseSleep() {
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, 1, 0)
}

// sleep sleeps for so many nanoseconds. The runtime's own timers are exact only to a
// millisecond while the program is idle.
func sleep(ns int64) {
	t := syscall.NsecToTimespec(ns)
	_ = syscall.Nanosleep(&t, nil) // a signal may end it early; the caller looks at the clock
}
