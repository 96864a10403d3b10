package rules

import (
	"fmt"
	"math"
	"time"
)

// compiledLimit is a compiled Limit.
type compiledLimit struct {
	limit     *Limit
	replaces  bool     // whether the limit replaces the default of the domain
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

// addLive adds a live limit that applies to the request of m.
func (l *compiledLimit) addLive(number int, now time.Time, m *Matches) error {
	cost := l.cost.of(&m.request)
	if cost == 0 {
		return fmt.Errorf("limit %s: %w", l.limit.Name, l.cost.by.err(&m.request))
	}
	counters := l.allowAt(&m.request, now).forTier(m.request.tier)
	if m.live += len(counters); m.live > maxLimits {
		return ErrTooManyMatches
	}
	m.replaced = m.replaced || l.replaces
	l.add(number, counters, cost, m)
	return nil
}

// addShadow adds a shadow limit that applies to the request of m, unless shadow limits have too many amounts.
func (l *compiledLimit) addShadow(number int, now time.Time, m *Matches) {
	counters := l.allowAt(&m.request, now).forTier(m.request.tier)
	if m.shadow += len(counters); m.shadow > maxLimits {
		m.LeftOut++
		return
	}
	l.add(number, counters, l.cost.of(&m.request), m)
}

// add adds the limit to m.
func (l *compiledLimit) add(number int, counters []Counter, cost int64, m *Matches) {
	matched := m.add(number, counters, l.per)
	matched.Limit, matched.Ban, matched.Cost = l.limit, l.ban, cost
	matched.Priority = l.priority != nil && l.priority.matches(&m.request)
}

// add adds the default.
func (f *compiledDefault) add(number int, m *Matches) error {
	counters := f.allow.forTier(m.request.tier)
	if m.live += len(counters); m.live > maxLimits {
		return ErrTooManyMatches
	}
	m.add(number, counters, f.per).Cost = 1
	return nil
}

// add adds a limit with its amounts, and the values that it is counted by.
func (m *Matches) add(number int, counters []Counter, per []attributeID) *Matched {
	start := len(m.per)
	for _, id := range per {
		m.per = append(m.per, Value{})
		m.request.count(id, &m.per[len(m.per)-1])
	}
	m.List = append(m.List, Matched{})
	matched := &m.List[len(m.List)-1]
	matched.Number, matched.Counters = number, counters
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

// of returns the cost of a request, or 0 if it cannot be determined.
func (c *compiledCost) of(r *request) int64 {
	if c.by == nil {
		return c.number
	}
	if len(c.by.cases) == 0 {
		return positive(r.text(c.by.id))
	}
	if i := c.by.find(r); i >= 0 {
		return c.by.cases[i].cost
	}
	return 1
}

// err returns the error for a request whose cost cannot be determined.
func (a *costAttribute) err(r *request) error {
	_, err := parseCost(a.name, string(r.text(a.id)))
	return err
}

// positive returns the integer in a text as strconv.ParseInt reads it, or 0 if it is not an integer of at least 1. Unlike
// ParseInt, it allocates no memory for other texts.
func positive(text []byte) (n int64) {
	if len(text) > 1 && text[0] == '+' {
		text = text[1:]
	}
	for _, b := range text {
		digit := int64(b) - '0'
		if digit < 0 || digit > 9 || n > (math.MaxInt64-digit)/10 {
			return 0
		}
		n = 10*n + digit
	}
	return n
}

// find returns the position of the first case that matches, or -1.
func (a *costAttribute) find(r *request) int {
	return r.first(a.index, len(a.cases), func(i int) bool { return a.cases[i].matcher.matches(r, a.id) })
}
