package middleware

import (
	"math/rand/v2"
	"sync"
	"time"
)

// breaker is a circuit breaker. After several failures in a row it is open: calls are not permitted, except one probe after
// the cooldown. If the probe succeeds, the breaker is closed.
type breaker struct {
	failures int           // failures in a row that open the breaker
	cooldown time.Duration // mean time from opening to the probe
	changed  func(open bool)

	mu      sync.Mutex
	failed  int    // failures in a row
	epoch   uint64 // number of changes; results of calls that began before the last change are ignored
	open    bool
	probing bool
	until   time.Time // the probe is permitted from this time on
}

// outcome is the result of a call for a breaker.
type outcome int

const (
	succeeded outcome = iota
	failed
	abandoned // the caller has not waited for the result
)

// begin reports whether a call is permitted. The caller must pass the epoch to end.
func (b *breaker) begin() (epoch uint64, permitted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		return b.epoch, true
	}
	if b.probing || time.Now().Before(b.until) {
		return 0, false
	}
	b.probing = true
	return b.epoch, true
}

// end adds the result of a call that began in an epoch.
func (b *breaker) end(epoch uint64, o outcome) {
	b.mu.Lock()
	wasOpen := b.open
	if epoch == b.epoch {
		b.add(o)
	}
	isOpen := b.open
	b.mu.Unlock()
	if isOpen != wasOpen {
		b.changed(isOpen)
	}
}

// add adds the result of a call of this epoch. The caller must hold b.mu.
func (b *breaker) add(o outcome) {
	switch o {
	case succeeded:
		b.failed = 0
		if b.open {
			b.open, b.probing = false, false
			b.epoch++
		}
	case failed:
		b.failed++
		if b.open || b.failed >= b.failures {
			b.trip()
		}
	case abandoned:
		b.probing = false
	}
}

// trip opens the breaker for 0.5 to 1.5 cooldowns, so that the probes of many processes are spread. The caller must hold
// b.mu.
func (b *breaker) trip() {
	b.open, b.probing, b.failed = true, false, 0
	b.epoch++
	b.until = time.Now().Add(b.cooldown/2 + rand.N(b.cooldown)) // #nosec G404 -- a delay
}

// isOpen reports whether the breaker is open.
func (b *breaker) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open
}
