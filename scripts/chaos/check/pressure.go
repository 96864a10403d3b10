package check

import (
	"fmt"
	"time"
)

// Pressure describes the load and the faults of a run. A run with few of either proves nothing.
type Pressure struct {
	Lasted  time.Duration
	Decided int     // requests
	Least   float64 // decisions a second; with fewer the run does not count
	Limited int     // decisions that refused; at least one is required
	// Kills is the number of leaders that were killed, stopped, or cut off or paused for longer than
	// the election timeout. A fault may hit a node that has just lost its leadership, so only half
	// as many changes are required.
	Kills   int
	Changes int  // of leader
	Quiet   bool // no change of leader is required; otherwise at least one is
}

// Check returns an error that names the requirement the run does not meet, or nil.
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
