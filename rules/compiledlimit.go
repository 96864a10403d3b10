package rules

import (
	"fmt"
	"strconv"
	"time"
)

// compiledLimit is a compiled Limit.
type compiledLimit struct {
	limit     *Limit
	ban       *Counter // nil if the limit does not ban
	when      clause
	per       []attributeID
	allow     compiledAllow
	overrides overrideList
	cost      compiledCost
	priority  *clause // nil if the limit reserves nothing
}

// overrideList is the overrides of a limit.
type overrideList struct {
	list  []compiledOverride // in the order of the file
	index *index             // nil if the list is short
}

// compiledOverride is a compiled Override.
type compiledOverride struct {
	override *Override
	when     clause
	allow    compiledAllow
}

// compiledDefault is a compiled Default.
type compiledDefault struct {
	allow compiledAllow
	per   []attributeID
}

// compiledCost is a compiled Cost.
type compiledCost struct {
	number int64          // the cost if by is nil
	by     *costAttribute // nil if all requests have the same cost
}

// costAttribute is the attribute that determines a cost.
type costAttribute struct {
	id    attributeID
	name  string
	cases []costCase // if empty, the value of the attribute is the cost
	index *index     // of cases; nil if there are few
}

// costCase is a compiled CostCase.
type costCase struct {
	matcher compiledMatcher
	cost    int64
}

// add adds a limit that applies to the request of m.
func (l *compiledLimit) add(now time.Time, m *Matches) error {
	r := &m.request
	cost, err := l.cost.of(r)
	if err != nil {
		return fmt.Errorf("limit %s: %w", l.limit.Name, err)
	}
	matched := m.add(l.allowAt(r, now), l.per)
	matched.Limit, matched.Ban, matched.Cost = l.limit, l.ban, cost
	m.live = m.live || !l.limit.Shadow
	matched.Priority = l.priority != nil && l.priority.matches(r)
	return nil
}

// add adds the default. The error is that of Match.
func (f *compiledDefault) add(m *Matches) error {
	m.add(&f.allow, f.per).Cost = 1
	if m.counters > maxLimits {
		return ErrTooManyMatches
	}
	return nil
}

// add adds a limit with the amounts of the tier of the request, and the values that it is counted by.
func (m *Matches) add(allow *compiledAllow, per []attributeID) *Matched {
	start := len(m.per)
	for _, id := range per {
		m.per = append(m.per, Value{})
		m.request.count(id, &m.per[len(m.per)-1])
	}
	counters := allow.forTier(m.request.tier)
	m.counters += len(counters)
	m.List = append(m.List, Matched{})
	matched := &m.List[len(m.List)-1]
	matched.Counters = counters
	matched.Per = m.per[start:len(m.per):len(m.per)]
	return matched
}

// allowAt returns the amounts of the first override that applies, or those of the limit.
func (l *compiledLimit) allowAt(r *request, now time.Time) *compiledAllow {
	list := l.overrides.list
	if len(list) == 0 {
		return &l.allow
	}
	i := r.first(l.overrides.index, len(list), func(i int) bool {
		return list[i].override.isActive(now) && list[i].when.matches(r)
	})
	if i < 0 {
		return &l.allow
	}
	return &list[i].allow
}

// of returns the cost of a request.
func (c *compiledCost) of(r *request) (int64, error) {
	if c.by == nil {
		return c.number, nil
	}
	if len(c.by.cases) == 0 {
		text := r.text(c.by.id)
		if n, err := strconv.ParseInt(string(text), 10, 64); err == nil && n >= 1 {
			return n, nil
		}
		return parseCost(c.by.name, string(text))
	}
	if i := c.by.find(r); i >= 0 {
		return c.by.cases[i].cost, nil
	}
	return 1, nil
}

// find returns the position of the first case that matches, or -1.
func (a *costAttribute) find(r *request) int {
	return r.first(a.index, len(a.cases), func(i int) bool { return a.cases[i].matcher.matches(r, a.id) })
}
