package check

import (
	"fmt"
	"time"
)

// Passage compares the time that passed between two moments on the limiter's clock and on
// the clients' clock.
type Passage struct {
	Real, Log time.Duration // elapsed time on the clients' clock, and on the limiter's clock
	Silence   time.Duration // total time without decisions, in which there may have been no leader
	Terms     int           // terms that began between the two moments
}

const (
	// lostByTerm is the log time that may be lost at a change of leaders, in addition to the time
	// without a leader. Log time continues from the newest entry of the new leader. When the new
	// leader lost contact with the old one, this entry was at most lostByTerm old.
	lostByTerm = 500 * time.Millisecond
	// readWithin is the longest time between reading the limiter's clock and reading the clients'
	// clock.
	readWithin = time.Second
)

// Lost returns the time by which the clock of the limiter fell behind, negative if it ran ahead.
func (p Passage) Lost() time.Duration { return p.Real - p.Log }

// Allowed returns the largest value of Lost that is not an error.
func (p Passage) Allowed() time.Duration {
	return p.Silence + time.Duration(p.Terms)*lostByTerm + readWithin
}

// Check returns an error if the clock lost more time than allowed or ran ahead.
func (p Passage) Check() error {
	switch lost := p.Lost(); {
	case lost > p.Allowed():
		return fmt.Errorf("log time lost %s in %s; at most %s is permitted for %d terms and %s without decisions", lost, p.Real, p.Allowed(), p.Terms, p.Silence)
	case lost < -readWithin:
		return fmt.Errorf("log time gained %s in %s", -lost, p.Real)
	}
	return nil
}
