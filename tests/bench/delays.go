package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// runDelay is the time for which threads that could run have waited for a processor.
type runDelay struct {
	seconds float64
	times   int64 // for which threads got a processor
}

// micros returns the mean time until a thread that can run gets a processor, in microseconds.
func (d runDelay) micros() float64 { return d.seconds * 1e6 / float64(max(d.times, 1)) }

// runDelayOf returns the delay of all threads of a process since they were started.
func runDelayOf(pid int) (total runDelay, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("process %d has no statistics of the scheduler", pid)
	}
	for _, file := range files {
		text, readErr := os.ReadFile(file)
		if errors.Is(readErr, fs.ErrNotExist) { // the thread has exited
			continue
		}
		d, parseErr := parseSchedstat(string(text))
		total.seconds += d.seconds
		total.times += d.times
		err = errors.Join(err, readErr, parseErr)
	}
	return total, err
}

// parseSchedstat reads the second and the third field of /proc/PID/task/TID/schedstat: the delay in nanoseconds, and the
// number of times that the thread got a processor.
func parseSchedstat(text string) (d runDelay, err error) {
	var ran, delayed int64
	_, err = fmt.Sscan(text, &ran, &delayed, &d.times)
	d.seconds = float64(delayed) / 1e9
	return d, err
}
