package sidecar

import (
	"context"
	"time"

	"github.com/throttledhq/throttled/lessee"
	"github.com/throttledhq/throttled/lessee/courier"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/topology"
)

// drawTimeout is the maximum wait for the answer to a draw. It is longer than the timeout for requests, since no request
// waits for a draw.
const drawTimeout = 500 * time.Millisecond

// Leases is the Decider of a sidecar: it decides requests with units that it has drawn from the upstream. Run must be called
// once.
type Leases struct {
	ledger *lessee.Ledger
	mode   string
	bound  time.Duration // see topology.Lessee
	name   string        // of the sidecar among the lessees
	draws  draws
}

var _ Decider = (*Leases)(nil)

// NewLeases returns a Decider without units.
func NewLeases(c lessee.Config) *Leases {
	l := &Leases{ledger: lessee.New(c), mode: "strict", name: c.Lessee, draws: draws{lines: newLines()}}
	if c.Relaxed {
		l.mode, l.bound = "relaxed", c.Hold
	}
	return l
}

// Run draws units from an upstream, and returns units, until ctx is done. It then returns all units in hand.
func (l *Leases) Run(ctx context.Context, u *Upstream) {
	l.draws.Commands, l.draws.log = &Commands{Upstream: u}, u.config.Log
	defer l.draws.Close()
	c := courier.Courier{Ledger: l.ledger, Conn: &l.draws, Timeout: drawTimeout}
	c.Run(ctx)
}

// status returns the leases in hand, and the counters.
func (l *Leases) status() topology.Lessee {
	if l == nil {
		return topology.Lessee{Mode: "off"}
	}
	c := l.ledger.Counts()
	s := topology.Lessee{
		Mode: l.mode, Bound: l.bound, Name: l.name, Error: l.draws.lastError(), Admitted: c.Admitted.Load(), Refused: c.Refused.Load(), Forwarded: c.Forwarded.Load(), Draws: c.Draws.Load(),
		Returns: c.Returns.Load(), Failures: c.Failures.Load(), Drawn: c.Drawn.Load(), Returned: c.Returned.Load(), Lost: c.Lost.Load(),
	}
	s.Keys, s.Leases, s.Units = l.ledger.Usage(lessee.Now())
	return s
}

// Decide decides the requests for which there are enough units in hand, and those that the upstream is known to refuse.
func (l *Leases) Decide(reqs []limiter.Request, out []limiter.Decision) {
	now := lessee.Now()
	for i := 0; i < len(reqs); {
		end := i + 1
		for end < len(reqs) && reqs[end-1].Linked {
			end++
		}
		if !l.decide(reqs[i:end], now, out[i:end]) {
			for j := range out[i:end] {
				out[i+j] = limiter.Decision{Err: limiter.ErrNotLeading}
			}
		}
		i = end
	}
}

// decide decides a single request or a group.
func (l *Leases) decide(reqs []limiter.Request, now int64, out []limiter.Decision) bool {
	if len(reqs) == 1 {
		return l.ledger.Decide(&reqs[0], now, &out[0])
	}
	return l.ledger.DecideGroup(reqs, now, out)
}
