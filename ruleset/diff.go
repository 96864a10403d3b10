package ruleset

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/throttledhq/throttled/rules"
)

// maxNames is the number of names in a summary.
const maxNames = 6

// maxSummary is the largest size of a summary, in bytes. The longest name of a limit with all keys fits.
const maxSummary = 512

// difference lists the limits that differ between two files, as DOMAIN/LIMIT. A changed limit is followed by the keys that
// have changed, in parentheses. Other parts of a domain are listed as DOMAIN.default, DOMAIN.attributes, DOMAIN.tiers,
// DOMAIN.semantics, and DOMAIN.order for the order of the limits.
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

// diff compares two files. A domain that only one of them has is compared with an empty one.
func diff(before, after *rules.File) (d difference) {
	none := &rules.Domain{}
	earlier, later := domainsOf(before), domainsOf(after)
	for i := range after.Domains {
		x := &after.Domains[i]
		if old := earlier[x.Name]; old != nil {
			d.addLimits(x.Name, old, x)
			d.changed.addParts(x.Name, old, x)
			continue
		}
		d.addLimits(x.Name, none, x)
		d.added.addParts(x.Name, none, x)
	}
	for i := range before.Domains {
		if x := &before.Domains[i]; later[x.Name] == nil {
			d.addLimits(x.Name, x, none)
			d.removed.addParts(x.Name, x, none)
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

// addLimits adds the differences between the limits of two versions of a domain.
func (d *difference) addLimits(name string, before, after *rules.Domain) {
	old := make(map[string]int, len(before.Limits)) // positions in before
	for i := range before.Limits {
		old[before.Limits[i].Name] = i
	}
	last, reordered := -1, false
	for i := range after.Limits {
		l := &after.Limits[i]
		at, known := old[l.Name]
		if !known {
			d.added.add(name, "/", l.Name)
			continue
		}
		if keys := before.Limits[at].ChangedKeys(l); keys != nil {
			d.changed.add(name, "/", l.Name+"("+strings.Join(keys, ",")+")")
		}
		reordered = reordered || at < last
		last = at
		delete(old, l.Name)
	}
	for i := range before.Limits { // in the order of the file
		if _, left := old[before.Limits[i].Name]; left {
			d.removed.add(name, "/", before.Limits[i].Name)
		}
	}
	if reordered {
		d.changed.add(name, ".", "order")
	}
}

// addParts adds the differences outside of the limits.
func (n *names) addParts(name string, before, after *rules.Domain) {
	for _, part := range []struct {
		name          string
		before, after any
	}{
		{"default", before.Default, after.Default},
		{"attributes", before.Attributes, after.Attributes},
		{"tiers", before.Tiers, after.Tiers},
		{"semantics", before.Semantics, after.Semantics},
	} {
		if !reflect.DeepEqual(part.before, part.after) {
			n.add(name, ".", part.name)
		}
	}
}

// summarize returns the difference between two files as text: the numbers of added, removed and changed limits, and some
// of their names.
func summarize(before, after *rules.File) string {
	d := diff(before, after)
	text := fmt.Sprintf("+%d -%d ~%d", d.added.count, d.removed.count, d.changed.count)
	left, separator := d.added.count+d.removed.count+d.changed.count, ": "
	for _, name := range d.first() {
		if len(text)+len(separator)+len(name)+len(rest(left)) > maxSummary {
			break
		}
		text += separator + name
		left, separator = left-1, " "
	}
	return text + rest(left)
}

// first returns the first maxNames names, each with a sign.
func (d *difference) first() (list []string) {
	for _, some := range []struct {
		sign string
		names
	}{{"+", d.added}, {"-", d.removed}, {"~", d.changed}} {
		for _, name := range some.first {
			list = append(list, some.sign+name)
		}
	}
	return list[:min(len(list), maxNames)]
}

// rest returns the end of a summary that names all but n differences.
func rest(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}
