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
	added, removed, changed names
}

// names counts names, and has the first maxNames of them.
type names struct {
	count int
	first []string
}

// add adds the name that consists of a domain, a separator and a part of the domain.
func (n *names) add(domain, separator, part string) {
	if n.count++; len(n.first) < maxNames {
		n.first = append(n.first, domain+separator+part)
	}
}

// diff compares two files.
func diff(before, after *rules.File) (d difference) {
	none := &rules.Domain{}
	earlier, later := domainsOf(before), domainsOf(after)
	for i := range after.Domains {
		x := &after.Domains[i]
		old := earlier[x.Name]
		if old == nil {
			old = none
		}
		d.addDomain(x.Name, old, x)
	}
	for i := range before.Domains {
		if x := &before.Domains[i]; later[x.Name] == nil {
			d.addDomain(x.Name, x, none)
		}
	}
	return d
}

// domainsOf returns the domains of a file by name.
func domainsOf(file *rules.File) map[string]*rules.Domain {
	domains := make(map[string]*rules.Domain, len(file.Domains))
	for i := range file.Domains {
		domains[file.Domains[i].Name] = &file.Domains[i]
	}
	return domains
}

// addDomain adds the differences between two versions of a domain.
func (d *difference) addDomain(name string, before, after *rules.Domain) {
	old := make(map[string]*rules.Limit, len(before.Limits))
	for i := range before.Limits {
		old[before.Limits[i].Name] = &before.Limits[i]
	}
	for i := range after.Limits {
		l := &after.Limits[i]
		switch known := old[l.Name]; {
		case known == nil:
			d.added.add(name, "/", l.Name)
		case !known.Equal(l):
			d.changed.add(name, "/", l.Name)
		}
		delete(old, l.Name)
	}
	for i := range before.Limits { // in the order of the file
		if l := &before.Limits[i]; old[l.Name] != nil {
			d.removed.add(name, "/", l.Name)
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
			d.changed.add(name, ".", part.name)
		}
	}
}

// summarize returns the difference between two files as text: the numbers of added, removed and changed limits, and some
// of their names.
func summarize(before, after *rules.File) string {
	d := diff(before, after)
	var shown []string
	total := 0
	for _, list := range []struct {
		sign string
		names
	}{{"+", d.added}, {"-", d.removed}, {"~", d.changed}} {
		total += list.count
		for _, name := range list.first {
			shown = append(shown, list.sign+name)
		}
	}
	counts := fmt.Sprintf("+%d -%d ~%d", d.added.count, d.removed.count, d.changed.count)
	if total == 0 {
		return counts
	}
	shown, rest := shown[:min(len(shown), maxNames)], ""
	if more := total - len(shown); more > 0 {
		rest = fmt.Sprintf(" and %d more", more)
	}
	return clip(counts+": "+strings.Join(shown, " "), maxSummary-len(rest)) + rest
}
