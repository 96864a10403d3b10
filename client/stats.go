package client

import (
	"sync/atomic"

	"github.com/throttledhq/throttled/lessee"
)

// Stats are counters since the creation of a Client, and its present state.
type Stats struct {
	LocalAdmitted, LocalRefused   uint64 // requests decided in this process with leases, and by known refusals
	ServerAdmitted, ServerRefused uint64 // requests decided by the server
	Flagged                       uint64 // requests decided by Options.Away: watch it, since these requests do not share the limit

	Pipelines uint64 // sent to the server, with requests, draws, returns or probes
	Draws     uint64 // draws sent
	Returns   uint64 // returns sent
	Failures  uint64 // draws without an answer

	UnitsDrawn    uint64 // units granted
	UnitsReturned uint64 // units returned because they were not needed
	UnitsLost     uint64 // units of leases that ended before they were spent or returned

	Keys, Leases int   // keys that are tracked, and leases in hand
	Units        int64 // units in hand

	Away    bool   // the server does not answer
	Outages uint64 // number of times that the server stopped answering
}

// counts counts the requests that the ledger does not decide.
type counts struct{ admitted, refused, flagged atomic.Uint64 }

func (c *counts) count(admitted bool) {
	if admitted {
		c.admitted.Add(1)
	} else {
		c.refused.Add(1)
	}
}

// Stats returns the present counters. It takes a time proportional to the number of keys.
func (c *Client) Stats() Stats {
	n := c.ledger.Counts()
	s := Stats{
		LocalAdmitted: uint64(n.Admitted.Load()), LocalRefused: uint64(n.Refused.Load()),
		ServerAdmitted: c.counts.admitted.Load(), ServerRefused: c.counts.refused.Load(), Flagged: c.counts.flagged.Load(),
		Pipelines: c.upstream.sent.Load(), Draws: uint64(n.Draws.Load()), Returns: uint64(n.Returns.Load()), Failures: uint64(n.Failures.Load()),
		UnitsDrawn: uint64(n.Drawn.Load()), UnitsReturned: uint64(n.Returned.Load()), UnitsLost: uint64(n.Lost.Load()),
		Away: c.upstream.down.Load(), Outages: c.upstream.outages.Load(),
	}
	s.Keys, s.Leases, s.Units = c.ledger.Usage(lessee.Now())
	return s
}
