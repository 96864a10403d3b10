package rules

import (
	"fmt"
	"slices"
	"strings"
)

// unverifiedPrefix begins the names of attributes whose values were not verified, so that a client can choose them. The
// HTTP server gives them these names.
const unverifiedPrefix = "unverified."

// isUnverified reports whether a client can choose the value of an attribute.
func isUnverified(name string) bool { return strings.HasPrefix(name, unverifiedPrefix) }

// replacesDefault reports whether the default of the domain does not apply to the requests of the limit. A shadow limit
// does not replace it, and neither does a limit with a counter or a condition that depends on a value that a client can
// choose: the client could avoid the default with random values.
func (l *Limit) replacesDefault() bool {
	return !l.Shadow && !slices.ContainsFunc(l.Per, isUnverified) && !l.When.usesUnverified()
}

// usesUnverified reports whether a condition depends on a value that a client can choose.
func (w *When) usesUnverified() bool {
	return slices.ContainsFunc(w.All, func(c Condition) bool { return isUnverified(c.Attribute) }) ||
		slices.ContainsFunc(w.Any, func(alternative When) bool { return alternative.usesUnverified() })
}

// failUnverified adds an error at the name of an attribute if a client can choose its value. The consequence describes this
// use of the attribute.
func (r *report) failUnverified(v value, name, consequence string) {
	if isUnverified(name) {
		r.fail(v, fmt.Sprintf("%q is not verified, so a client could choose %s", name, consequence),
			`write a verified attribute, such as ip, or one that is declared with "verified:"`)
	}
}

// verifiedName decodes the name of an attribute whose value a client must not choose.
func (r *report) verifiedName(v value, consequence string) string {
	name, _ := r.name(v)
	r.failUnverified(v, name, consequence)
	return name
}

// verifiedNames is verifiedName for a list of distinct names.
func (r *report) verifiedNames(v value, consequence string) []string {
	names := r.names(v)
	if !r.refused[v.Node] {
		for _, item := range v.items() {
			r.failUnverified(item, item.Value, consequence)
		}
	}
	return names
}

// verifiedWhen decodes conditions on attributes whose values a client must not choose.
func (d *decoder) verifiedWhen(v value, consequence string) When {
	w := d.when(v)
	d.failUnverifiedWhen(v, consequence)
	return w
}

func (d *decoder) failUnverifiedWhen(v value, consequence string) {
	if d.refused[v.Node] {
		return
	}
	for e := range v.entries() {
		if e.key.Value != anyKey {
			d.failUnverified(e.key.at(e.value), e.key.Value, consequence)
			continue
		}
		for _, alternative := range e.value.items() {
			d.failUnverifiedWhen(alternative, consequence)
		}
	}
}
