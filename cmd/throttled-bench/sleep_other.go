//go:build !linux

package main

import "time"

// preciseSleep does nothing: only Linux has a timer slack to reduce.
func preciseSleep() {}

// sleep sleeps for ns nanoseconds, with the precision of the runtime's timers. It waits
// for a time of a fixed schedule, so there is no event to wait for instead.
func sleep(ns int64) { time.Sleep(time.Duration(ns)) }
