package check

import (
	"fmt"
	"time"
)

// Pressure says how much a run has tried: one in which hardly anything happened proves nothing.
type Pressure struct {
	Lasted  time.Duration
	Decided int     // requests
	Least   float64 // decisions a second, below which the run does not count
	Limited int     // decisions that refused; some are due
	// Kills is how many leaders were killed, stopped, or cut off or paused for longer than others
	// wait for one. As some of that may hit a node that leads no more, half as many changes are due.
	Kills   int
	Changes int  // of leader
	Quiet   bool // no change of leader is due at all; otherwise at least one is
}

// Check returns what the run lacks to prove anything, or nil.
func (p Pressure) Check() error {
	rate := float64(p.Decided) / p.Lasted.Seconds()
	switch {
	case rate < p.Least:
		return fmt.Errorf("only %.0f decisions a second, which proves nothing: %.0f are due", rate, p.Least)
	case p.Limited == 0:
		return fmt.Errorf("no request was refused by a limit, which proves nothing")
	case !p.Quiet && p.Changes == 0:
		return fmt.Errorf("the leader never changed, which proves nothing of changes")
	case 2*p.Changes < p.Kills:
		return fmt.Errorf("%d leaders were taken away, and others came %d times only: the faults did not work", p.Kills, p.Changes)
	}
	return nil
}
