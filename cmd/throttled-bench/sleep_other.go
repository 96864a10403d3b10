//go:build !linux

package main

import "time"

// preciseSleep does nothing: only Linux has a timer slack to reduce.
func preciseSleep() {}

// sleep sleeps for ns nanoseconds, with the precision of the runtime's timers. The wait is
// for a time in a fixed schedule, not for an event.
func sleep(ns int64) { time.Sleep(time.Duration(ns)) }
