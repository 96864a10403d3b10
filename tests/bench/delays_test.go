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

// TestRunDelayOf reads the delays of this process, whose threads have got processors.
func TestRunDelayOf(t *testing.T) {
	d, err := runDelayOf(os.Getpid())
	if err != nil || d.times == 0 {
		t.Errorf("got %+v, error %v; want threads that got a processor", d, err)
	}
	if _, err := runDelayOf(1 << 30); err == nil {
		t.Error("a process that does not exist has a delay")
	}
}
