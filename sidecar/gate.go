package sidecar

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/throttledhq/throttled/topology"
)

// gate limits dials to an address that has refused a connection with a reply. It permits one dial in each pause, so that a
// sidecar with many clients neither reconnects for each of their commands, nor exceeds the limit of the upstream for wrong
// passwords. Dials that were permitted before the refusal are not limited. The zero gate permits all dials.
type gate struct {
	mu      sync.Mutex
	refused *topology.ConnRefusedError // the last refusal; nil permits all dials
	until   time.Time                  // end of the pause
	tried   bool                       // a dial was permitted when this pause began
}

// enter returns nil if an address may be dialed, and otherwise its last refusal.
func (g *gate) enter(addr string, now time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.refused == nil || g.refused.Node != addr:
		return nil
	case now.Before(g.until):
		return g.refused
	case g.tried: // the dial was not refused within the pause
		g.refused = nil
		return nil
	}
	g.tried, g.until = true, now.Add(pauseAfter(g.refused))
	return nil
}

// refuse begins a pause.
func (g *gate) refuse(refused *topology.ConnRefusedError, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused, g.until, g.tried = refused, now.Add(pauseAfter(refused)), false
}

// accept permits all dials to an address, which has accepted a connection.
func (g *gate) accept(addr string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refused != nil && g.refused.Node == addr {
		g.refused = nil
	}
}

// pauseAfter returns a random pause after a refusal.
func pauseAfter(refused *topology.ConnRefusedError) time.Duration {
	if wrong := new(authError); errors.As(refused, &wrong) && strings.HasPrefix(wrong.reply, "-WRONGPASS ") {
		return jittered(authBackoff)
	}
	return jittered(maxBackoff)
}
