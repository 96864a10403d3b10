package rules

import (
	"fmt"
	"hash/maphash"
	"net/netip"
)

// matchSize holds two numbers for live limits that match a request together. Both are limited to maxLimits.
type matchSize struct {
	all   int // amounts
	group int // requests to the engine: amounts except "unlimited", and bans
}

// size returns the largest size of a limit: that of its amounts, of a tier, or of an override. A shadow limit has none.
func (l *Limit) size() matchSize {
	if l.Shadow {
		return matchSize{}
	}
	var s matchSize
	for amounts := range l.amountLists() {
		list := sizeOf(amounts)
		s = matchSize{max(s.all, list.all), max(s.group, list.group)}
	}
	if l.Ban.For > 0 && s.group > 0 { // a request with an unlimited amount does not ask for the ban
		s.group++
	}
	return s
}

// sizeOf returns the size of a list of amounts of a live limit.
func sizeOf(amounts []Amount) matchSize {
	s := matchSize{len(amounts), len(amounts)}
	if s.all == 1 && amounts[0].Kind == Unlimited { // "unlimited" is always the only amount
		s.group = 0
	}
	return s
}

func (s matchSize) add(other matchSize) matchSize {
	return matchSize{s.all + other.all, s.group + other.group}
}

// isTooLarge reports whether a request cannot have so many amounts.
func (s matchSize) isTooLarge() bool { return max(s.all, s.group) > maxLimits }

// what names the items that are too many.
func (s matchSize) what() string {
	if s.all > maxLimits {
		return fmt.Sprintf("more than %d amounts", maxLimits)
	}
	return fmt.Sprintf("more than %d amounts and bans", maxLimits)
}

// checkMatches refuses live limits that match a request together and have more amounts than one request can have: limits
// without conditions, and limits with the same conditions in any order. Other limits may also match together. This is an error of
// the request. Shadow limits cause no error.
func (d *decoder) checkMatches(places []value, limits []Limit) {
	var always matchSize
	for i := range limits {
		if !limits[i].When.IsZero() || d.refused[places[i].Node] || always.isTooLarge() {
			continue
		}
		if _, restricted := places[i].find("when"); restricted {
			continue // the condition has an error
		}
		always = always.add(limits[i].size())
		if always.isTooLarge() {
			d.fail(places[i], always.what()+" match each request", `restrict limits by "when"`)
		}
	}
	if !always.isTooLarge() {
		d.checkEqualConditions(places, limits, always)
	}
}

// sameConditions is the limits with the same conditions.
type sameConditions struct {
	first int // position
	size  matchSize
}

// checkEqualConditions refuses limits whose conditions differ at most in their order. The other argument is the size of the
// limits that match each request.
func (d *decoder) checkEqualConditions(places []value, limits []Limit, always matchSize) {
	groups := make(map[uint64]sameConditions, len(limits))
	seed := maphash.MakeSeed()
	for i := range limits {
		l := &limits[i]
		if l.When.IsZero() {
			continue
		}
		hash := l.When.hash(seed)
		g, found := groups[hash]
		if !found {
			g = sameConditions{i, always}
		}
		before := g.size
		g.size = g.size.add(l.size())
		groups[hash] = g
		if g.size.isTooLarge() && !before.isTooLarge() && limits[g.first].When.canonical() == l.When.canonical() {
			d.fail(places[i], g.size.what()+" match each request that matches these conditions",
				"merge limits, or restrict them by other conditions")
		}
	}
}

// hash returns equal numbers for conditions whose canonical texts are equal, in less time than it takes to make the texts.
// The numbers of the elements of a list are added, so their order does not matter.
func (w *When) hash(seed maphash.Seed) uint64 {
	var all, alternatives uint64
	for i := range w.All {
		c := &w.All[i]
		all += maphash.Comparable(seed, hashedCondition{c.Attribute, c.Matcher.hash(seed)})
	}
	for i := range w.Any {
		alternatives += maphash.Comparable(seed, w.Any[i].hash(seed))
	}
	return maphash.Comparable(seed, [2]uint64{all, alternatives})
}

// hash is like When.hash.
func (m *Matcher) hash(seed maphash.Seed) uint64 {
	if m.Kind == AnyOf && len(m.List) == 1 {
		return m.List[0].hash(seed)
	}
	var list uint64
	for i := range m.List {
		list += m.List[i].hash(seed)
	}
	return maphash.Comparable(seed, hashedMatcher{m.Kind, m.Text, m.Network, list})
}

// hashedCondition is a Condition whose matcher is replaced by its hash.
type hashedCondition struct {
	attribute string
	matcher   uint64
}

// hashedMatcher is a Matcher whose list is replaced by the sum of its hashes.
type hashedMatcher struct {
	kind    MatcherKind
	text    string
	network netip.Prefix
	list    uint64
}
