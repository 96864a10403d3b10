package server

import "github.com/throttledhq/throttled/ruleset/counts"

// limitTallies collects the decisions of a batch on limits, so that consecutive calls to which the same limits apply with
// the same outcomes need one atomic addition for each limit. An element has the decisions on one limit of each call, by the
// position of the limit in the call; further limits are counted directly.
type limitTallies struct {
	list [8]limitTally
	used int // number of elements that may have decisions
}

// limitTally is a number of decisions on one limit with one outcome.
type limitTally struct {
	limit   *counts.Limit
	outcome counts.Outcome
	n       uint64
}

// add counts a decision on the limit at a position of a call.
func (l *limitTallies) add(position int, limit *counts.Limit, o counts.Outcome) {
	if position < len(l.list) {
		if t := &l.list[position]; t.limit == limit && t.outcome == o {
			t.n++
			return
		}
	}
	l.begin(position, limit, o)
}

// begin counts the first of consecutive equal decisions at a position of a call.
func (l *limitTallies) begin(position int, limit *counts.Limit, o counts.Outcome) {
	if position >= len(l.list) {
		limit.Add(o, 1)
		return
	}
	t := &l.list[position]
	t.flush()
	*t = limitTally{limit, o, 1}
	l.used = max(l.used, position+1)
}

// flush adds the decisions to the counters of the limits.
func (l *limitTallies) flush() {
	for i := range l.list[:l.used] {
		l.list[i].flush()
		l.list[i].limit = nil
	}
	l.used = 0
}

func (t *limitTally) flush() {
	if t.n > 0 {
		t.limit.Add(t.outcome, t.n)
		t.n = 0
	}
}

// commandTally collects the decisions of consecutive calls of one limiter command.
type commandTally struct {
	stats             *commandStats
	admitted, limited int64
}

// add counts a decision.
func (t *commandTally) add(cs *commandStats, limited bool) {
	if t.stats != cs {
		t.flush()
		t.stats = cs
	}
	if limited {
		t.limited++
	} else {
		t.admitted++
	}
}

// flush adds the decisions to the counters of the command.
func (t *commandTally) flush() {
	if t.admitted > 0 {
		t.stats.admitted.Add(t.admitted)
	}
	if t.limited > 0 {
		t.stats.limited.Add(t.limited)
	}
	*t = commandTally{}
}

// countLimits adds the decisions of a call to the counters of its limits. Each limit counts once, also if it has several
// amounts.
func (p *ruleParsing) countLimits(c *call, s *checkSummary) {
	position := 0
	for i := 0; i < len(c.limits); position++ {
		a := &c.limits[i]
		outcome := outcomeOf(&p.shown[i])
		for i++; i < len(c.limits) && c.limits[i].limit == a.limit; i++ {
			outcome = max(outcome, outcomeOf(&p.shown[i]))
		}
		p.tallies.add(position, a.counts, outcome)
	}
	if s.flags&flagUnmatched != 0 {
		c.unmatched.Add(outcomeWithout(s.flags), 1)
	}
}

// outcomeWithout returns the outcome of a request that no live limit applies to.
func outcomeWithout(flags ruleFlags) counts.Outcome {
	if flags&flagFailOpen != 0 {
		return counts.FailOpen
	}
	return counts.Unmatched
}

// outcomeOf returns the outcome of one counter.
func outcomeOf(s *shownLimit) counts.Outcome {
	limited := s.decision.Limited
	switch flags := s.flags; {
	case flags == 0 && !limited: // most decisions
		return counts.Admitted
	case flags&flagBanned != 0:
		return counts.Banned
	case flags&flagError != 0:
		return counts.Error
	case flags&flagShadow != 0 && limited:
		return counts.ShadowRefused
	case flags&flagFailClosed != 0:
		return counts.FailClosed
	case flags&flagFailOpen != 0:
		return counts.FailOpen
	case flags&flagLocal != 0 && limited:
		return counts.LocalRefused
	case flags&flagLocal != 0:
		return counts.Local
	case limited:
		return counts.Refused
	case flags&flagSoft != 0:
		return counts.Soft
	}
	return counts.Admitted
}
