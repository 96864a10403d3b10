package rules

import (
	"fmt"
	"hash/maphash"
	"reflect"
)

// checkMatches refuses limits that match a request together and have more amounts than one request can have: limits
// without conditions, and limits with the same conditions. Other limits may also match together. This is an error of
// the request.
func (d *decoder) checkMatches(places []value, limits []Limit) {
	always := 0
	for i := range limits {
		if !limits[i].When.IsZero() || d.refused[places[i].Node] || always > maxLimits {
			continue
		}
		if _, restricted := places[i].find("when"); restricted {
			continue // the condition has an error
		}
		always += limits[i].Allow.size()
		if always > maxLimits {
			d.fail(places[i], fmt.Sprintf("more than %d amounts match each request", maxLimits), `restrict limits by "when"`)
		}
	}
	if always <= maxLimits {
		d.checkEqualConditions(places, limits, always)
	}
}

// sameConditions is the limits with the same conditions.
type sameConditions struct {
	first   int // position
	amounts int
}

// checkEqualConditions refuses limits with the same conditions, in the same order. The other argument is the number of
// amounts that match each request.
func (d *decoder) checkEqualConditions(places []value, limits []Limit, always int) {
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
			g.first = i
		}
		before := g.amounts
		g.amounts += l.Allow.size()
		groups[hash] = g
		if always+g.amounts > maxLimits && always+before <= maxLimits && reflect.DeepEqual(limits[g.first].When, l.When) {
			d.fail(places[i], fmt.Sprintf("more than %d amounts match each request that matches these conditions", maxLimits),
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
