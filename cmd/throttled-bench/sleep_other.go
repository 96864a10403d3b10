//go:build !linux

package main

import "time"

// preciseSleep has nothing to do where there is no slack to take away.
func preciseSleep() {}

// sleep waits for the instant of a fixed schedule, which no event announces. It is as exact
// as the runtime's timers.
func sleep(ns int64) { time.Sleep(time.Duration(ns)) }
