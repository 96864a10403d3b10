package main

import (
	"os"
	"testing"
)

func TestParseSchedstat(t *testing.T) {
	d, err := parseSchedstat("1353209 4000000 2\n")
	if err != nil || d != (runDelay{0.004, 2}) || d.micros() != 2000 {
		t.Errorf("got %+v (mean %v us), error %v; want 4 ms for 2 times", d, d.micros(), err)
	}
	if _, err := parseSchedstat("1353209"); err == nil {
		t.Error("a line with one field is accepted")
	}
}

// TestThreadDelaysOf reads the delays of this process, whose threads have got processors.
func TestThreadDelaysOf(t *testing.T) {
	d, err := threadDelaysOf(os.Getpid())
	if total := d.since(nil); err != nil || len(d) == 0 || total != (runDelay{}) {
		t.Errorf("got %+v, error %v; want threads", d, err)
	}
	times := int64(0)
	for _, thread := range d {
		times += thread.times
	}
	if times == 0 {
		t.Error("no thread got a processor")
	}
	if _, err := threadDelaysOf(1 << 30); err == nil {
		t.Error("a process that does not exist has a delay")
	}
}

// TestThreadDelays_Since checks that threads that have exited or were started between two readings do not count.
func TestThreadDelays_Since(t *testing.T) {
	before := threadDelays{"stays": {1, 10}, "exits": {50, 500}}
	after := threadDelays{"stays": {1.5, 14}, "starts": {3, 30}}
	if d := after.since(before); d != (runDelay{0.5, 4}) {
		t.Errorf("got %+v, want 0.5 s and 4 times", d)
	}
}
