//go:build !linux

package main

import "time"

func preciseSleep() {}

func sleep(ns int64) { time.Sleep(time.Duration(ns)) }
