package check

import (
	"fmt"
	"time"
)

// Passage compares how much time went by on the clock of the limiter and on that of the clients,
// between two moments.
type Passage struct {
	Real, Log time.Duration
	Silence   time.Duration // in which nobody was told anything: nobody may have led
	Terms     int           // that have begun meanwhile
}

const (
	// lostByTerm is how much a change of leaders may lose beside the time without one: what has
	// passed since the newest entry that the next leader had when it was cut off from the last.
	lostByTerm = 500 * time.Millisecond
	// readWithin is how late the clock of the limiter may be read.
	readWithin = time.Second
)

// Lost returns by how much the clock of the limiter has fallen behind, below 0 if it ran ahead.
func (p Passage) Lost() time.Duration { return p.Real - p.Log }

// Allowed returns by how much it may have.
func (p Passage) Allowed() time.Duration {
	return p.Silence + time.Duration(p.Terms)*lostByTerm + readWithin
}

// Check returns that the clock has stood still for longer than it may, or has run ahead, or nil.
func (p Passage) Check() error {
	switch lost := p.Lost(); {
	case lost > p.Allowed():
		return fmt.Errorf("in %s log time has lost %s, which is more than %s: in %d terms, and %s without a decision", p.Real, lost, p.Allowed(), p.Terms, p.Silence)
	case lost < -readWithin:
		return fmt.Errorf("in %s log time has run ahead by %s", p.Real, -lost)
	}
	return nil
}
