package main

import (
	"os"
	"sync"
	"time"
)

const (
	callTimeout  = 5 * time.Second       // of a call, with its retries
	callPause    = 10 * time.Millisecond // between two calls of a caller
	loadBegun    = 100                   // successful calls
	longestError = 200                   // bytes
)

// load counts the calls of all callers.
type load struct {
	until string

	mu               sync.Mutex
	calls, succeeded int
	errors           []map[string]int // of each caller, by text
	last             time.Time        // of the last successful call
	gap              time.Duration
}

func newLoad(until string) *load {
	return &load{until: until, last: time.Now()}
}

// run makes the calls of one caller until the file exists.
func (l *load) run(call func() error) {
	own := map[string]int{}
	l.mu.Lock()
	l.errors = append(l.errors, own)
	l.mu.Unlock()
	for {
		if _, err := os.Stat(l.until); err == nil {
			return
		}
		l.note(call(), own)
		time.Sleep(callPause) // the rate of the calls, as in all drivers
	}
}

func (l *load) note(err error, own map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if err != nil {
		text := err.Error()
		own[text[:min(len(text), longestError)]]++
		return
	}
	l.gap = max(l.gap, time.Since(l.last))
	l.last = time.Now()
	if l.succeeded++; l.succeeded == loadBegun {
		write(result{"check": "load", "event": "begun"})
	}
}

func (l *load) result() result {
	silent := time.Since(l.last)
	return result{
		"calls": l.calls, "errors": l.errors,
		"gap_ms": milliseconds(max(l.gap, silent)), "last_ms": milliseconds(silent),
	}
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Round(100*time.Microsecond)) / float64(time.Millisecond)
}
