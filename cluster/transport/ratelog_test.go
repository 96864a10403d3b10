package transport

import (
	"strings"
	"testing"
	"time"
)

func TestRateLog(t *testing.T) {
	var log lines
	c := newClock()
	before := 0
	n := newRateLog(log.logger(), c.now)
	for _, step := range []struct {
		wait  time.Duration
		kind  string
		lines int    // number of lines after the call
		left  string // field lines_dropped of the last line; "": the line has no such field
	}{
		{0, "a", 1, ""},
		{0, "a", 1, ""},
		{0, "b", 2, ""},
		{59 * time.Second, "a", 2, ""},
		{time.Second, "a", 3, "dropped_lines=2"},
		{0, "a", 3, ""},
		{time.Minute, "b", 4, ""},
		{time.Minute, "a", 5, "dropped_lines=1"},
	} {
		c.advance(step.wait)
		n.warn(step.kind, "text", "kind", step.kind)
		got := log.with("text")
		if len(got) != step.lines {
			t.Fatalf("after step %+v, the log has %d lines; want the number in the field lines of the step", step, len(got))
		}
		if len(got) == before {
			continue
		}
		before = len(got)
		if last := got[len(got)-1]; strings.Contains(last, "dropped_lines") != (step.left != "") || !strings.Contains(last, step.left) {
			t.Errorf("after step %+v, the last line is %q; want the text in the field left of the step", step, last)
		}
	}
}
