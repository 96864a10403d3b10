package server

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/ruleset"
)

// ruleState is the state of a server for the commands that use the rules.
type ruleState struct {
	store    *ruleset.Store // nil if the server has no rules
	clock    func() time.Time
	elapsed  func() time.Duration // a clock that no change of the wall clock affects
	random   func() uint64
	local    Decider // nil: limits with on_failure: local are open
	counts   ruleCounts
	refusals refusals
	banning  sync.Mutex // held while a ban is written
}

// ruleCounts holds the counters of INFO about requests of CL.CHECK, without those that charge nothing: PEEK, DRYRUN and
// refunds.
type ruleCounts struct {
	unmatched     atomic.Int64 // requests to which neither a live limit nor a default applied
	soft          atomic.Int64 // requests admitted within a soft share
	banned        atomic.Int64 // requests refused by a ban
	bans          atomic.Int64 // bans that have begun
	shadowLimited atomic.Int64 // requests that a shadow limit would have refused
	shadowErrors  atomic.Int64 // requests for which a shadow limit was not decided
	failOpen      atomic.Int64 // requests admitted by on_failure
	failClosed    atomic.Int64 // requests refused by on_failure
	local         atomic.Int64 // requests decided by this node, because of on_failure
}

// namedCount is a counter with its name in INFO.
type namedCount struct {
	name string
	n    *atomic.Int64
}

// all returns all counters.
func (c *ruleCounts) all() []namedCount {
	return []namedCount{
		{"rules_unmatched", &c.unmatched}, {"rules_soft", &c.soft}, {"rules_banned", &c.banned},
		{"rules_bans", &c.bans}, {"rules_shadow_limited", &c.shadowLimited},
		{"rules_shadow_errors", &c.shadowErrors},
		{"rules_failopen", &c.failOpen}, {"rules_failclosed", &c.failClosed}, {"rules_local", &c.local},
	}
}

// reset sets the counters to zero, as CONFIG RESETSTAT does.
func (c *ruleCounts) reset() {
	for _, count := range c.all() {
		count.n.Store(0)
	}
}

// add counts a reply to CL.CHECK with these flags.
func (c *ruleCounts) add(flags ruleFlags) {
	if flags == 0 {
		return
	}
	for _, row := range [...]struct {
		flag ruleFlags
		n    *atomic.Int64
	}{{flagUnmatched, &c.unmatched}, {flagSoft, &c.soft}, {flagBanned, &c.banned}, {flagShadow, &c.shadowLimited}, {flagFailOpen, &c.failOpen},
		{flagFailClosed, &c.failClosed}, {flagLocal, &c.local}} {
		if flags&row.flag != 0 {
			row.n.Add(1)
		}
	}
}

func (r *ruleState) init(store *ruleset.Store) {
	r.store, r.clock, r.random = store, time.Now, rand.Uint64
	start := time.Now()
	r.elapsed = func() time.Duration { return time.Since(start) }
}

// setClock replaces all clocks by one, and makes all random numbers 0.
func (r *ruleState) setClock(clock func() time.Time) {
	start := clock()
	r.clock, r.random = clock, func() uint64 { return 0 }
	r.elapsed = func() time.Duration { return clock().Sub(start) }
}

// known reports whether there is an active set.
func (r *ruleState) known() bool {
	_, err := r.active()
	return err == nil
}

// active returns the active set. The error states why there is none.
func (r *ruleState) active() (*ruleset.Active, error) {
	if r.store == nil {
		return nil, errNoRules
	}
	a := r.store.Active()
	switch {
	case a.Err != nil:
		return nil, replyError("ERR " + a.Err.Error())
	case a.Set == nil:
		return nil, errNoRules
	}
	return a, nil
}
