package check

import (
	"fmt"
	"time"
)

// Pressure describes the load and the faults of a run. A run with too little load or too few
// faults is not meaningful.
type Pressure struct {
	Lasted  time.Duration
	Decided int     // number of decisions
	Least   float64 // required decisions per second
	Limited int     // number of decisions that refused a request; at least one is required
	// Kills is the number of leaders that were killed or stopped, plus the number of leaders that
	// were cut off or paused for longer than the election timeout. A fault may hit a node that has
	// just lost its leadership, so Check requires only half as many changes of leader.
	Kills   int
	Changes int  // number of changes of the leader
	Quiet   bool // if false, at least one change of leader is required
}

// Check returns an error that names a requirement that the run does not meet, or nil.
func (p Pressure) Check() error {
	rate := float64(p.Decided) / p.Lasted.Seconds()
	switch {
	case rate < p.Least:
		return fmt.Errorf("insufficient load: %.0f decisions per second, at least %.0f are required", rate, p.Least)
	case p.Limited == 0:
		return fmt.Errorf("insufficient load: no request was refused by a limit")
	case !p.Quiet && p.Changes == 0:
		return fmt.Errorf("insufficient faults: the leader never changed")
	case 2*p.Changes < p.Kills:
		return fmt.Errorf("insufficient faults: %d leaders were made unavailable, but the leader changed only %d times", p.Kills, p.Changes)
	}
	return nil
}
