package envoy

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/throttledhq/throttled/rules"
)

// maxLimits is the maximum number of limits of a domain in the result.
const maxLimits = 1_000_000

// Convert returns the text of a rules file with a domain for each domain of the sources. rules.Parse accepts it.
//
// Two sources with the same domain are an error unless merge is set; the descriptors of both are then in one list. The
// notes name the parts of the sources that are not converted because they do not change decisions. The error is of type
// rules.Errors if a source is not valid, or cannot be converted.
func Convert(sources []Source, merge bool) (text []byte, notes []rules.Error, err error) {
	var domains []*domain
	var errs rules.Errors
	for _, source := range sources {
		p := parser{reporter: reporter{file: source.Name}}
		if d := p.parse(source.Text); d != nil && len(p.errs) == 0 {
			domains = p.addDomain(domains, d, merge)
		}
		for _, d := range domains {
			p.checkUnique(d.descriptors, d.name)
		}
		slices.SortStableFunc(p.errs, byPlace)
		slices.SortStableFunc(p.notes, byPlace)
		errs, notes = append(errs, p.errs...), append(notes, p.notes...)
	}
	if len(errs) > 0 {
		return nil, nil, errs[:min(len(errs), 20)]
	}
	if text, err = write(domains); err != nil {
		return nil, nil, err
	}
	if _, err := rules.Parse("the converted file", text, time.LoadLocation); err != nil {
		return nil, nil, fmt.Errorf("the result is not valid: %w", err)
	}
	return text, notes, nil
}

// byPlace orders errors by their place in a file.
func byPlace(a, b rules.Error) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
}

// addDomain adds a domain to a list, or merges it with the domain of the same name.
func (p *parser) addDomain(domains []*domain, d *domain, merge bool) []*domain {
	i := slices.IndexFunc(domains, func(other *domain) bool { return other.name == d.name })
	switch {
	case i < 0:
		return append(domains, d)
	case merge:
		domains[i].descriptors = append(domains[i].descriptors, d.descriptors...)
	default:
		p.fail(d.place, fmt.Sprintf("%q is also the domain of another file", d.name), "rename it, or use --merge, which is MERGE_DOMAIN_CONFIG of the service")
	}
	return domains
}

// checkUnique refuses two descriptors of a list with the same text.
func (p *parser) checkUnique(list []*descriptor, path string) {
	seen := map[string]*descriptor{}
	for _, d := range list {
		if first := seen[d.composite]; first != nil && !d.checked {
			p.fail(d.place, fmt.Sprintf("the list has another descriptor %q, in line %d", d.composite, first.place.line), "remove one of them")
		}
		d.checked = true
		seen[d.composite] = d
		p.checkUnique(d.nested, path+"."+d.composite)
	}
}

// limit is a descriptor with a rate limit, and the branches that lead to it.
type limit struct {
	name  string // in the rules file
	keys  []string
	path  []branch
	alias string // text of a descriptor on the path whose key differs from that of the entry; "" if there is none
}

// converter collects the limits of a domain.
type converter struct {
	keys   []string       // all keys of the domain, in the order of the file
	sorted []string       // the same keys, sorted
	place  map[string]int // index of each key in keys
	limits []limit
	names  map[string]int // number of limits by name before it is made unique
}

// convert returns the limits of a domain.
func convert(d *domain) ([]limit, error) {
	c := converter{names: map[string]int{}, place: map[string]int{}}
	c.collectKeys(d.descriptors)
	c.sorted = slices.Sorted(slices.Values(c.keys))
	c.walk(d.descriptors, nil, nil)
	if len(c.limits) > maxLimits {
		return nil, fmt.Errorf("the domain %s has more than %d limits: split it", d.name, maxLimits)
	}
	for i := range c.limits {
		c.limits[i].name = c.unique(c.limits[i].name)
	}
	return c.limits, nil
}

// collectKeys collects the keys of a list and of all nested lists, in the order of the file.
func (c *converter) collectKeys(list []*descriptor) {
	for _, d := range list {
		if _, seen := c.place[d.key]; !seen {
			c.place[d.key] = len(c.keys)
			c.keys = append(c.keys, d.key)
		}
		c.collectKeys(d.nested)
	}
}

// index finds the descriptors of a list that entries with a key can select.
type index struct {
	keys  []string                 // keys of the domain with which an entry can select a descriptor, in the order of the file
	byKey map[string][]*descriptor // in the order of the file
}

// index returns the index of a list.
func (c *converter) index(list []*descriptor) *index {
	x := &index{byKey: map[string][]*descriptor{}}
	for _, d := range list {
		c.selectors(d, func(key string) { x.byKey[key] = append(x.byKey[key], d) })
	}
	x.keys = slices.SortedFunc(maps.Keys(x.byKey), func(a, b string) int { return c.place[a] - c.place[b] })
	return x
}

// selectors calls add with each key of the domain with which an entry can select a descriptor. The text of the entry
// begins with the key and "_". So does the text of the descriptor, or its part before the first star is a part of the key.
func (c *converter) selectors(d *descriptor, add func(key string)) {
	start, _, wildcard := strings.Cut(d.composite, "*")
	for at := range len(start) {
		if _, known := c.place[start[:at]]; known && start[at] == '_' {
			add(start[:at])
		}
	}
	if !wildcard {
		if _, known := c.place[d.composite]; known {
			add(d.composite) // the descriptor has no value, or another one has this text as its key
		}
		return
	}
	first, _ := slices.BinarySearch(c.sorted, start)
	for _, key := range c.sorted[first:] {
		if !strings.HasPrefix(key, start) {
			return
		}
		add(key)
	}
}

// walk collects the limits of a list of descriptors. The path leads to the list.
func (c *converter) walk(list []*descriptor, keys []string, path []branch) {
	x := c.index(list)
	for _, key := range x.keys {
		for _, b := range branches(x.byKey[key], key) {
			if len(c.limits) > maxLimits {
				return
			}
			deeperKeys, deeper := append(slices.Clone(keys), key), append(slices.Clone(path), b)
			if b.limit != nil {
				c.limits = append(c.limits, newLimit(deeperKeys, deeper))
			}
			if len(b.nested) > 0 {
				c.walk(b.nested, deeperKeys, deeper)
			}
		}
	}
}

// newLimit returns the limit of a path. Different limits can have the same name.
func newLimit(keys []string, path []branch) limit {
	l := limit{keys: keys, path: path}
	texts := make([]string, len(path))
	for i, b := range path {
		texts[i] = b.composite
		if b.key != keys[i] {
			l.alias = b.composite
		}
	}
	l.name = nameOf(texts)
	if l.alias != "" {
		l.name += "-alias"
	}
	return l
}

// notInNames matches characters that a name cannot have.
var notInNames = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// nameOf returns a valid name for the texts of a path. A hyphen replaces other characters, except before and after a text,
// and before a value. A text without letters and digits is named "key".
func nameOf(texts []string) string {
	const most = 50 // leaves space for suffixes
	words := make([]string, len(texts))
	for i, text := range texts {
		words[i] = strings.ReplaceAll(strings.Trim(notInNames.ReplaceAllString(text, "-"), "-."), "_-", "_")
		if strings.Trim(words[i], "-._") == "" {
			words[i] = "key"
		}
	}
	name := strings.Join(words, ".")
	return name[:min(len(name), most)]
}

// unique appends a number to a name that another limit has.
func (c *converter) unique(name string) string {
	for {
		c.names[name]++
		n := c.names[name]
		if n == 1 {
			return name
		}
		numbered := fmt.Sprintf("%s-%d", name, n)
		if c.names[numbered] == 0 {
			c.names[numbered] = 1
			return numbered
		}
	}
}
