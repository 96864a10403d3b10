//go:build !linux

package main

import "time"

// preciseSleep does nothing: only Linux has a timer slack to reduce.
func preciseSleep() {}

// sleep sleeps for ns nanoseconds, with the precision of the runtime's timers. It calls
// time.Sleep because the program waits for a time in a schedule, and not for an event that
// could be signaled.
func sleep(ns int64) { time.Sleep(time.Duration(ns)) }
