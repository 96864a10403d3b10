package rules

import "slices"

// index finds the elements of a list of conditions that may match a request, such as the limits of a domain. The cost
// depends on the attributes of the request and on the number of elements found, and not on the length of the list.
//
// Each element is stored under a key that a request must have in order to match: a value of one attribute, a prefix of
// it, a network that contains it, and so on. The builder chooses the key that the fewest elements share. If many
// elements share a key nevertheless, they have an index of their own, by the keys of their other conditions.
//
// An element is found if its keys are those of the request, so its conditions must be checked afterward.
type index struct {
	always     []uint32 // positions of elements without a key: they are found for each request
	buckets    []bucket
	attributes []attributeIndex
	byID       map[attributeID]uint32 // positions in attributes; nil if there are few
}

// bucket holds the elements with a key that several share.
type bucket struct {
	elements []uint32 // positions in the list, ascending
	index    *index   // replaces elements if it is not nil
}

// target refers to the elements with one key: the position of the only one, or bucketFlag and the position of a bucket.
type target uint32

const (
	bucketFlag target = 1 << 31
	noTarget   target = 1<<32 - 1
)

// attributeIndex has the keys of one attribute.
type attributeIndex struct {
	attribute attributeID
	present   target // noTarget if no element has this key
	exact     map[string]target
	prefixes  *prefixTree
	suffixes  *prefixTree // of reversed texts
	templates *templateTree
	networks  *networkTable
}

// few is the length up to which a list is searched without an index.
const few = 6

// lookUp returns the positions of the elements that may match, ascending and without duplicates. They are stored in
// r.found; the caller must shorten it to its length before the call when it has read the result.
func (r *request) lookUp(x *index) []uint32 {
	start := len(r.found)
	x.addTo(r)
	list := r.found[start:]
	if len(list) > 1 {
		slices.Sort(list)
		list = slices.Compact(list)
	}
	return list
}

// first returns the position of the first element of a list for which matches returns true, or -1. The index of the
// list is nil if the list is short.
func (r *request) first(x *index, length int, matches func(i int) bool) int {
	if x == nil {
		for i := range length {
			if matches(i) {
				return i
			}
		}
		return -1
	}
	start, first := len(r.found), -1
	for _, i := range r.lookUp(x) {
		if matches(int(i)) {
			first = int(i)
			break
		}
	}
	r.found = r.found[:start]
	return first
}

// addTo appends the elements that may match to r.found.
func (x *index) addTo(r *request) {
	r.found = append(r.found, x.always...)
	if x.byID == nil {
		for i := range x.attributes {
			x.addAttribute(r, &x.attributes[i])
		}
		return
	}
	for i := range r.values {
		if at, ok := x.byID[r.values[i].attribute]; ok {
			x.addAttribute(r, &x.attributes[at])
		}
	}
}

// addAttribute appends the elements whose key is a value of one attribute.
func (x *index) addAttribute(r *request, a *attributeIndex) {
	text := r.text(a.attribute)
	if len(text) == 0 {
		return
	}
	x.add(r, a.present)
	if t, ok := a.exact[string(text)]; ok {
		x.add(r, t)
	}
	if a.prefixes != nil {
		x.addPrefixes(r, a.prefixes, text)
	}
	if a.suffixes != nil {
		x.addSuffixes(r, a.suffixes, text)
	}
	if a.templates != nil {
		x.addTemplates(r, a.templates, text)
	}
	if a.networks != nil {
		x.addNetworks(r, a.networks, a.attribute)
	}
}

// add appends the elements of a target.
func (x *index) add(r *request, t target) {
	switch {
	case t == noTarget:
	case t&bucketFlag == 0:
		r.found = append(r.found, uint32(t))
	default:
		b := &x.buckets[t&^bucketFlag]
		r.found = append(r.found, b.elements...)
		if b.index != nil {
			b.index.addTo(r)
		}
	}
}

// addSuffixes appends the elements whose key is a suffix of text.
func (x *index) addSuffixes(r *request, t *prefixTree, text []byte) {
	start := len(r.reversed)
	for i := len(text) - 1; i >= max(len(text)-t.longest, 0); i-- {
		r.reversed = append(r.reversed, text[i])
	}
	x.addPrefixes(r, t, r.reversed[start:])
	r.reversed = r.reversed[:start]
}
