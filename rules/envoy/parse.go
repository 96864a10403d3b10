package envoy

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/throttledhq/throttled/internal/yamltext"
	"github.com/throttledhq/throttled/rules"
)

// Source is a configuration file of the service.
type Source struct {
	Name string // for errors
	Text []byte
}

// domain is the content of one or more files.
type domain struct {
	name        string
	place       place
	descriptors []*descriptor
}

// descriptor is a node in the tree of descriptors.
type descriptor struct {
	place     place
	key       string
	value     string // "" if each value matches
	limit     *rateLimit
	shadow    bool
	quota     bool
	share     bool
	metadata  string // JSON object, or ""
	nested    []*descriptor
	composite string // key, or key_value: the text that the service compares
	checked   bool   // by checkUnique
}

// rateLimit is the value of "rate_limit".
type rateLimit struct {
	name      string
	replaces  []string
	unit      string // as in units
	requests  uint32 // per unit
	unlimited bool
}

// units lists the units of the service, and the same periods in a rules file. The windows of the service begin at
// multiples of these lengths since 1970, so weeks, months and years are not those of the calendar.
var units = map[string]string{
	"second": "second", "minute": "minute", "hour": "hour", "day": "day",
	"week": "7 days", "month": "30 days", "year": "365 days",
}

// The limits of one file. With aliases, a short file could have more descriptors than fit into memory.
const (
	maxDescriptors = 100_000
	maxDepth       = 32
)

// parser reads one file.
type parser struct {
	reporter
	descriptors int
	depth       int
}

// parse returns the content of a file. If it is not valid, p.errs has the reasons.
func (p *parser) parse(text []byte) *domain {
	list, err := yamltext.Documents(string(text))
	switch {
	case err != nil:
		p.syntaxError(err)
		return nil
	case len(list) == 0:
		p.fail(place{1, 1, ""}, "the file is empty", "write domain and descriptors")
		return nil
	case len(list) > 1:
		p.fail(place{list[1].Line, list[1].Column, ""}, "the service reads only the first document of a file", "write each domain to a file of its own")
	}
	return p.domain(list[0].Content[0])
}

var yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// syntaxError adds an error of the YAML library.
func (p *parser) syntaxError(err error) {
	line, reason := 1, err.Error()
	if parts := yamlError.FindStringSubmatch(reason); parts != nil {
		reason = parts[2]
		if n, err := strconv.Atoi(parts[1]); err == nil {
			line = n
		}
	}
	p.fail(place{line, 1, ""}, "not valid YAML: "+reason, "")
}

// domain reads the root of a file.
func (p *parser) domain(n *yaml.Node) *domain {
	m, ok := p.fields(n, "", "domain", "descriptors")
	if !ok {
		return nil
	}
	d := &domain{place: placeOf(n, "domain")}
	if v := m["domain"]; v != nil {
		d.place = placeOf(v, "domain")
		d.name = p.text(v, "domain")
	}
	switch {
	case d.name == "":
		p.fail(d.place, "the domain is missing", "add domain: NAME")
	case !rules.IsName(d.name):
		p.fail(d.place, fmt.Sprintf("%q cannot be the name of a domain in a rules file", d.name),
			`rename the domain here and in the filter of Envoy: a name has 1 to 64 letters, digits, "-", "_" or "."`)
	}
	d.descriptors = p.list(m["descriptors"], "descriptors")
	return d
}

// list reads a list of descriptors. n is nil if there is none.
func (p *parser) list(n *yaml.Node, path string) []*descriptor {
	if n = resolve(n); n == nil || isNull(n) {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		p.fail(placeOf(n, path), "the value must be a list of descriptors", "write each descriptor as - key: NAME")
		return nil
	}
	if p.depth++; p.depth > maxDepth {
		p.fail(placeOf(n, path), fmt.Sprintf("descriptors are nested more than %d times", maxDepth), "")
		return nil
	}
	defer func() { p.depth-- }()
	var list []*descriptor
	for i, item := range n.Content {
		if p.descriptors++; p.descriptors > maxDescriptors {
			p.fail(placeOf(item, path), fmt.Sprintf("more than %d descriptors", maxDescriptors), "split the file")
			return list
		}
		if d := p.descriptor(item, fmt.Sprintf("%s[%d]", path, i)); d != nil {
			list = append(list, d)
		}
	}
	return list
}

// descriptor reads one descriptor and those that are nested in it.
func (p *parser) descriptor(n *yaml.Node, path string) *descriptor {
	m, ok := p.fields(n, path, "key", "value", "rate_limit", "descriptors", "shadow_mode", "quota_mode",
		"detailed_metric", "value_to_metric", "share_threshold", "metadata")
	if !ok {
		return nil
	}
	d := &descriptor{place: placeOf(resolve(n), path)}
	d.key, d.value = p.text(m["key"], path+".key"), p.text(m["value"], path+".value")
	d.composite = d.key
	if d.value != "" {
		d.composite += "_" + d.value
	}
	p.checkKey(d, m, path)
	if v := resolve(m["rate_limit"]); v != nil && !isNull(v) {
		d.limit = p.rateLimit(v, path+".rate_limit")
	}
	d.shadow, d.quota = p.boolean(m["shadow_mode"], path+".shadow_mode"), p.boolean(m["quota_mode"], path+".quota_mode")
	d.share = p.boolean(m["share_threshold"], path+".share_threshold")
	if d.share && !strings.Contains(d.value, "*") {
		p.fail(placeOf(m["share_threshold"], path+".share_threshold"), "share_threshold needs a value with a wildcard", `add * to the value, or remove the key`)
	}
	if v := resolve(m["metadata"]); v != nil {
		d.metadata = p.metadata(v, path+".metadata")
	}
	p.noteUnused(d, m, path)
	d.nested = p.list(m["descriptors"], path+".descriptors")
	return d
}

// checkKey checks the key and the value of a descriptor.
func (p *parser) checkKey(d *descriptor, m map[string]*yaml.Node, path string) {
	switch {
	case d.key == "":
		p.fail(d.place, "the descriptor has no key", "add key: NAME")
	case strings.Contains(d.key, "*"):
		p.fail(placeOf(m["key"], path+".key"), fmt.Sprintf("%q: a key with a wildcard cannot be converted", d.key), "write a descriptor for each key")
	}
}

// noteUnused adds a note for each key without an effect on decisions.
func (p *parser) noteUnused(d *descriptor, m map[string]*yaml.Node, path string) {
	for _, name := range []string{"detailed_metric", "value_to_metric"} {
		if p.boolean(m[name], path+"."+name) {
			p.note(placeOf(m[name], path+"."+name), "not converted, because it changes only the names of the service's statistics")
		}
	}
	for _, name := range []string{"shadow_mode", "quota_mode", "metadata"} {
		if v := m[name]; d.limit == nil && v != nil && !isNull(resolve(v)) {
			p.note(placeOf(v, path+"."+name), "not converted, because it has no effect without rate_limit")
		}
	}
}

// rateLimit reads the value of "rate_limit".
func (p *parser) rateLimit(n *yaml.Node, path string) *rateLimit {
	m, ok := p.fields(n, path, "unit", "requests_per_unit", "unlimited", "name", "replaces")
	if !ok {
		return nil
	}
	l := &rateLimit{unit: strings.ToLower(p.text(m["unit"], path+".unit")), name: p.text(m["name"], path+".name")}
	l.unlimited = p.boolean(m["unlimited"], path+".unlimited")
	l.requests = p.requests(m["requests_per_unit"], path+".requests_per_unit")
	_, known := units[l.unit]
	switch {
	case l.unlimited && known:
		p.fail(placeOf(m["unit"], path+".unit"), "an unlimited rate limit has no unit", "remove unit, or unlimited")
	case l.unlimited:
	case l.unit == "":
		p.fail(placeOf(n, path), "the unit is missing", "add unit: second, minute, hour, day, week, month or year")
	case !known:
		p.fail(placeOf(m["unit"], path+".unit"), fmt.Sprintf("%q is not a unit", l.unit), "write second, minute, hour, day, week, month or year")
	case m["requests_per_unit"] == nil:
		p.note(placeOf(n, path), "requests_per_unit is missing: like the service, the limit refuses all requests")
	}
	l.replaces = p.replaces(m["replaces"], path+".replaces", l.name)
	return l
}

// replaces reads the names of limits that are replaced by the limit with the given name.
func (p *parser) replaces(n *yaml.Node, path, own string) []string {
	if n = resolve(n); n == nil || isNull(n) {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		p.fail(placeOf(n, path), "the value must be a list", "write each name as - name: NAME")
		return nil
	}
	var names []string
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		m, ok := p.fields(item, at, "name")
		if !ok {
			continue
		}
		name := p.text(m["name"], at+".name")
		switch name {
		case "":
			p.fail(placeOf(resolve(item), at), "the name of the replaced limit is missing", "add name: NAME")
		case own:
			p.fail(placeOf(m["name"], at+".name"), fmt.Sprintf("%q is the name of the limit itself", name), "write the name of another limit")
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// requests reads a number of requests. It returns 0 if there is none.
func (p *parser) requests(n *yaml.Node, path string) uint32 {
	if n = resolve(n); n == nil || isNull(n) {
		return 0
	}
	var v any
	if n.ShortTag() != "!!int" || n.Decode(&v) != nil {
		p.fail(placeOf(n, path), fmt.Sprintf("%q is not an integer", n.Value), "write an integer without quotes")
		return 0
	}
	number, ok := v.(int)
	if !ok || number < 0 || number > math.MaxUint32 {
		p.fail(placeOf(n, path), n.Value+" is out of range", "write an integer from 0 to 4294967295")
		return 0
	}
	return uint32(number)
}
