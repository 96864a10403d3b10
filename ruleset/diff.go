package ruleset

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/throttledhq/throttled/rules"
)

// maxNames is the number of names in a summary.
const maxNames = 6

// maxSummary is the largest size of a summary, in bytes.
const maxSummary = 256

// difference lists the limits that differ between two files, as DOMAIN/LIMIT. Other parts of a domain that have changed
// are listed as DOMAIN.default, DOMAIN.attributes and DOMAIN.tiers.
type difference struct {
	added, removed, changed []string
}

// diff compares two files.
func diff(before, after *rules.File) (d difference) {
	none := &rules.Domain{}
	for i := range after.Domains {
		x := &after.Domains[i]
		old := before.Domain(x.Name)
		if old == nil {
			old = none
		}
		d.addDomain(x.Name, old, x)
	}
	for i := range before.Domains {
		if x := &before.Domains[i]; after.Domain(x.Name) == nil {
			d.addDomain(x.Name, x, none)
		}
	}
	return d
}

// addDomain adds the differences between two versions of a domain.
func (d *difference) addDomain(name string, before, after *rules.Domain) {
	old := map[string]*rules.Limit{}
	for i := range before.Limits {
		old[before.Limits[i].Name] = &before.Limits[i]
	}
	for i := range after.Limits {
		l := &after.Limits[i]
		switch known := old[l.Name]; {
		case known == nil:
			d.added = append(d.added, name+"/"+l.Name)
		case !reflect.DeepEqual(known, l):
			d.changed = append(d.changed, name+"/"+l.Name)
		}
		delete(old, l.Name)
	}
	for i := range before.Limits { // in the order of the file
		if l := &before.Limits[i]; old[l.Name] != nil {
			d.removed = append(d.removed, name+"/"+l.Name)
		}
	}
	d.addOther(name, before, after)
}

// addOther adds the differences outside of the limits.
func (d *difference) addOther(name string, before, after *rules.Domain) {
	for _, part := range []struct {
		name          string
		before, after any
	}{
		{"default", before.Default, after.Default},
		{"attributes", before.Attributes, after.Attributes},
		{"tiers", before.Tiers, after.Tiers},
	} {
		if !reflect.DeepEqual(part.before, part.after) {
			d.changed = append(d.changed, name+"."+part.name)
		}
	}
}

// summarize returns the difference between two files as text: the numbers of added, removed and changed limits, and some
// of their names.
func summarize(before, after *rules.File) string {
	d := diff(before, after)
	var names []string
	for _, list := range []struct {
		sign  string
		names []string
	}{{"+", d.added}, {"-", d.removed}, {"~", d.changed}} {
		for _, name := range list.names {
			names = append(names, list.sign+name)
		}
	}
	counts := fmt.Sprintf("+%d -%d ~%d", len(d.added), len(d.removed), len(d.changed))
	if len(names) == 0 {
		return counts
	}
	rest := ""
	if more := len(names) - maxNames; more > 0 {
		names, rest = names[:maxNames], fmt.Sprintf(" and %d more", more)
	}
	return clip(counts+": "+strings.Join(names, " "), maxSummary-len(rest)) + rest
}
