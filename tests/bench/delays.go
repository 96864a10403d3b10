package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// runDelay is the time for which threads that could run have waited for a processor.
type runDelay struct {
	seconds float64
	times   int64 // for which threads got a processor
}

func (d *runDelay) add(other runDelay) {
	d.seconds += other.seconds
	d.times += other.times
}

// micros returns the mean time until a thread that can run gets a processor, in microseconds.
func (d runDelay) micros() float64 { return d.seconds * 1e6 / float64(max(d.times, 1)) }

// threadDelays are the delays of the threads of a process since they were started, by the file with their statistics.
type threadDelays map[string]runDelay

// threadDelaysOf returns the delays of the present threads of a process.
func threadDelaysOf(pid int) (threadDelays, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("process %d has no statistics of the scheduler", pid)
	}
	delays := threadDelays{}
	for _, file := range files {
		text, readErr := os.ReadFile(file)
		if errors.Is(readErr, fs.ErrNotExist) || errors.Is(readErr, syscall.ESRCH) { // the thread has exited
			continue
		}
		d, parseErr := parseSchedstat(string(text))
		delays[file] = d
		err = errors.Join(err, readErr, parseErr)
	}
	return delays, err
}

// since returns the delay since an earlier reading of the threads that are in both readings.
func (t threadDelays) since(before threadDelays) (total runDelay) {
	for thread, d := range t {
		if b, ok := before[thread]; ok {
			total.add(runDelay{d.seconds - b.seconds, d.times - b.times})
		}
	}
	return total
}

// parseSchedstat reads the second and the third field of /proc/PID/task/TID/schedstat: the delay in nanoseconds, and the
// number of times that the thread got a processor.
func parseSchedstat(text string) (d runDelay, err error) {
	var ran, delayed int64
	_, err = fmt.Sscan(text, &ran, &delayed, &d.times)
	d.seconds = float64(delayed) / 1e9
	return d, err
}
