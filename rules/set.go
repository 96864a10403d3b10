package rules

import (
	"iter"
	"time"
)

// Set is the compiled form of a rules file. It does not change, and may be used by several goroutines.
type Set struct {
	file    *File
	domains map[string]*CompiledDomain
}

// Compile compiles a file that Parse has returned. The file must not be changed afterward, because the set refers to it.
//
// The error names the domain, the limit, and an amount that the algorithm of the limit cannot count.
func Compile(f *File) (*Set, error) {
	s := &Set{file: f, domains: make(map[string]*CompiledDomain, len(f.Domains))}
	number := 0
	for i := range f.Domains {
		x := &f.Domains[i]
		domain, err := compileDomain(x)
		if err != nil {
			return nil, err
		}
		domain.first = number
		number += len(x.Limits) + 1
		s.domains[x.Name] = domain
	}
	return s, nil
}

// File returns the file that the set was compiled from. It must not be changed.
func (s *Set) File() *File { return s.file }

// Limits returns the names of the domain and of the limit of all limits of the set, in the order of their numbers: the first
// one has the number 0. Each domain has one more number after those of its limits, with an empty name: that of
// [CompiledDomain.Default].
func (s *Set) Limits() iter.Seq2[string, string] {
	return func(yield func(domain, limit string) bool) {
		for i := range s.file.Domains {
			x := &s.file.Domains[i]
			for j := range x.Limits {
				if !yield(x.Name, x.Limits[j].Name) {
					return
				}
			}
			if !yield(x.Name, "") {
				return
			}
		}
	}
}

// Domain returns the domain with the given name, or nil.
func (s *Set) Domain(name []byte) *CompiledDomain { return s.domains[string(name)] }

// CompiledDomain is the compiled form of a Domain.
type CompiledDomain struct {
	domain     *Domain
	attributes attributeTable
	tiers      tierTable
	limits     []compiledLimit // in the order of the file
	index      *index          // of limits; nil if there are few
	fallback   *compiledDefault
	first      int // number of the first limit in the set
}

// Domain returns the domain of the file. It must not be changed.
func (d *CompiledDomain) Domain() *Domain { return d.domain }

// Default returns the number of the default of the domain. The domain has this number whether or not it has a default.
func (d *CompiledDomain) Default() int { return d.first + len(d.limits) }

// Matches is the result of [CompiledDomain.Match]. The zero Matches is ready for use. It can be used again for other
// requests and domains, so that Match does not allocate memory. It must not be used by two goroutines at the same time.
type Matches struct {
	List    []Matched // in the order of the file, and the default of the domain last
	LeftOut int       // number of shadow limits that apply and are not in List, because shadow limits have at most 32 amounts

	request request
	per     []Value // of all elements of List
	live    int     // number of counters of live limits and the default
	shadow  int     // number of counters of shadow limits, also of those that are left out

	replaced bool // whether one of the limits replaces the default
}

// Reset empties the result, and drops all references to the set and to the bytes of the request. Without it, a Matches
// that is not used for a long time keeps a set in memory that has been replaced.
func (m *Matches) Reset() {
	m.Clear()
	clear(m.List[:cap(m.List)]) // an earlier result may have been longer
	m.request.table = nil
}

// Clear empties the result, and drops all references to the bytes of the request. Those to the set are kept: they are
// replaced sooner or later by later results. Clear takes less time than Reset.
func (m *Matches) Clear() {
	clear(m.per)
	m.List, m.per, m.LeftOut, m.live, m.shadow, m.replaced = m.List[:0], m.per[:0], 0, 0, 0, false
	m.request.clear()
}

// Matched is a limit that applies to a request.
type Matched struct {
	Limit    *Limit    // nil for the default of the domain
	Number   int       // of the limit in the set, see [Set.Limits]
	Counters []Counter // at least one: those of the tier, or of the override that applies. They must not be changed
	Ban      *Counter  // for the bans of the limit; nil if it does not ban
	Cost     int64     // units to charge, at least 1; 0 for a shadow limit whose cost cannot be determined
	Per      []Value   // the value of each attribute in Limit.Per or Default.Per
	Priority bool      // the request may use the share that Limit.Priority reserves
}

// Value is a value that is counted separately, and the attribute of the request from which it is taken. See [Source].
type Value struct {
	Attribute string // "" if the request has none of the attributes
	Value     []byte
}

// Match sets m.List to the limits that apply to a request at a time. The result is that of [Domain.Match], in the order
// of the file: if no live limit applies, the default of the domain follows; if nothing applies, it is empty. The values
// of Per may refer to the bytes of pairs. They are valid until the next call with the same m.
//
// The attributes of the request are pairs[0] with the value pairs[1], pairs[2] with the value pairs[3] and so on. An
// attribute with an empty value is absent. The time is used only for overrides with "until" or "during".
//
// The error is ErrTooManyMatches, or names an attribute: one that is repeated, or has no name or no value, or one from
// which the cost of a live limit cannot be determined. m.List is empty then.
//
// If m has been used for a similar request, a call without an error does not allocate memory.
func (d *CompiledDomain) Match(pairs [][]byte, now time.Time, m *Matches) error {
	m.Clear()
	if err := m.request.read(&d.attributes, pairs); err != nil {
		return err
	}
	m.request.tier = d.tiers.of(&m.request)
	err := d.matchLimits(now, m)
	if err == nil && !m.replaced && d.fallback != nil {
		err = d.fallback.add(d.Default(), m)
	}
	if err != nil {
		m.Reset()
	}
	return err
}

// matchLimits adds the limits that apply to the request of m.
func (d *CompiledDomain) matchLimits(now time.Time, m *Matches) error {
	var err error
	m.request.first(d.index, len(d.limits), func(i int) bool {
		l := &d.limits[i]
		if !l.when.matches(&m.request) {
			return false
		}
		if l.limit.Shadow {
			l.addShadow(d.first+i, now, m)
			return false
		}
		err = l.addLive(d.first+i, now, m)
		return err != nil
	})
	return err
}
