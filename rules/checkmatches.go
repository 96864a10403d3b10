package rules

import (
	"fmt"
	"hash/maphash"
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
	s := l.Allow.size()
	for i := range l.Overrides {
		o := l.Overrides[i].Allow.size()
		s = matchSize{max(s.all, o.all), max(s.group, o.group)}
	}
	if l.Ban.For > 0 && s.group > 0 { // a request with an unlimited amount does not ask for the ban
		s.group++
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
// without conditions, and limits with the same conditions. Other limits may also match together. This is an error of
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

// checkEqualConditions refuses limits with the same conditions, in the same order. The other argument is the size of the
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
		if g.size.isTooLarge() && !before.isTooLarge() && limits[g.first].When.equal(l.When) {
			d.fail(places[i], g.size.what()+" match each request that matches these conditions",
				"merge limits, or restrict them by other conditions")
		}
	}
}

// hash returns equal numbers for equal conditions.
func (w When) hash(seed maphash.Seed) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	w.addTo(&h)
	return h.Sum64()
}

func (w When) addTo(h *maphash.Hash) {
	for i := range w.All {
		_, _ = h.WriteString(w.All[i].Attribute)
		w.All[i].Matcher.addTo(h)
	}
	for i := range w.Any {
		_ = h.WriteByte('|')
		w.Any[i].addTo(h)
	}
}

func (m *Matcher) addTo(h *maphash.Hash) {
	_ = h.WriteByte(byte(m.Kind))
	_, _ = h.WriteString(m.Text)
	maphash.WriteComparable(h, m.Network)
	for i := range m.List {
		m.List[i].addTo(h)
	}
}
