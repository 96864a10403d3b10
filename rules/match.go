package rules

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/throttledhq/throttled/internal/glob"
)

// Attributes holds the attributes of a request by name. An attribute with an empty value is absent, so that a client
// cannot obtain a counter of its own with an empty header.
type Attributes map[string]string

// AttributesOf returns the attributes of a request from pairs of names and values. The error is that of
// [CompiledDomain.Match] for a name that is repeated or has no value.
func AttributesOf(pairs [][]byte) (Attributes, error) {
	var r request
	if err := r.read(&attributeTable{}, pairs); err != nil {
		return nil, err
	}
	request := make(Attributes, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		request[string(pairs[i])] = string(pairs[i+1])
	}
	return request, nil
}

// Match is a limit that applies to a request.
type Match struct {
	Limit   *Limit   // nil for the default of the domain
	Amounts []Amount // at least one
	Cost    int64    // units to charge, at least 1; 0 for a shadow limit whose cost cannot be determined
	Per     []Source // the value of each attribute in Limit.Per or Default.Per
}

// Source is a value that is counted separately, and the attribute of the request from which it is taken. Equal values
// of different attributes, such as an API key and a user name, have different counters.
type Source struct {
	Attribute string // "" if the request has none of the attributes; these requests share a counter
	Value     string
}

// ErrTooManyMatches is returned for a request to which more than 32 amounts of live limits and the default apply.
var ErrTooManyMatches = errors.New("more than 32 amounts apply to the request")

// Match returns the limits that apply to a request at a time, in the order of the file. If no live limit applies, the
// default of the domain follows them. A shadow limit does not replace the default, so that a limit can be tested in
// shadow without an effect on the requests. Neither does a limit whose conditions or counted values use an attribute that
// is not verified. If nothing applies, the result is nil.
//
// The result has shadow limits with at most 32 amounts together: the first ones in the order of the file. Those after
// them are left out.
//
// The error is ErrTooManyMatches, or names an attribute from which the cost of a live limit cannot be determined.
//
// Match examines all limits, so its cost grows with their number.
func (x *Domain) Match(request Attributes, now time.Time) ([]Match, error) {
	var matches []Match
	live, shadow := 0, 0 // amounts
	replaced := false    // whether a limit replaces the default
	for i := range x.Limits {
		l := &x.Limits[i]
		if !l.When.matches(x, request) {
			continue
		}
		cost, err := l.Cost.of(x, request)
		if err != nil && !l.Shadow {
			return nil, fmt.Errorf("limit %s: %w", l.Name, err)
		}
		amounts := l.allowAt(x, request, now).forTier(x.tier(request))
		if l.Shadow {
			shadow += len(amounts)
		} else {
			live += len(amounts)
		}
		replaced = replaced || l.replacesDefault()
		if !l.Shadow || shadow <= maxLimits {
			matches = append(matches, Match{l, amounts, cost, x.sources(l.Per, request)})
		}
	}
	if !replaced && x.Default != nil {
		amounts := x.Default.Allow.forTier(x.tier(request))
		live += len(amounts)
		matches = append(matches, Match{nil, amounts, 1, x.sources(x.Default.Per, request)})
	}
	if live > maxLimits {
		return nil, ErrTooManyMatches
	}
	return matches, nil
}

// value returns the value of an attribute for conditions, or "" if it is absent. The prefix length of IPv6 addresses
// does not apply, so conditions can have longer networks.
func (x *Domain) value(name string, request Attributes) string {
	if a := x.attribute(name); a != nil && len(a.FirstOf) > 0 {
		return request[firstPresent(a.FirstOf, request)]
	}
	return request[name]
}

// attribute returns the definition of a derived attribute, or nil.
func (x *Domain) attribute(name string) *Attribute {
	for i := range x.Attributes {
		if x.Attributes[i].Name == name {
			return &x.Attributes[i]
		}
	}
	return nil
}

// firstPresent returns the first name that the request has as an attribute, or "".
func firstPresent(names []string, request Attributes) string {
	for _, name := range names {
		if request[name] != "" {
			return name
		}
	}
	return ""
}

// sources returns the counted values of attributes.
func (x *Domain) sources(names []string, request Attributes) []Source {
	var list []Source
	for _, name := range names {
		list = append(list, x.source(name, request))
	}
	return list
}

// source returns the counted value of one attribute.
func (x *Domain) source(name string, request Attributes) Source {
	if a := x.attribute(name); a != nil && len(a.FirstOf) > 0 {
		name = firstPresent(a.FirstOf, request)
	}
	text := request[name]
	if text == "" {
		return Source{}
	}
	if a := x.attribute(name); a != nil && a.IPv6Prefix > 0 {
		text = canonicalIP(text, a.IPv6Prefix)
	}
	return Source{name, text}
}

// canonicalIP returns the network with the given prefix length of an IPv6 address, and the usual spelling of an IPv4
// address. Any other text is returned unchanged.
func canonicalIP(text string, bits int) string {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return text
	}
	address = address.WithZone("").Unmap()
	if address.Is4() {
		return address.String()
	}
	return netip.PrefixFrom(address, bits).Masked().String()
}

// tier returns the value of the attribute with the tier.
func (x *Domain) tier(request Attributes) (name, fallback string) {
	if x.Tiers.By == "" {
		return "", ""
	}
	return x.value(x.Tiers.By, request), x.Tiers.Default
}

// forTier returns the amounts of a tier. If the tier is unknown, it returns those of the tier fallback.
func (a Allow) forTier(name, fallback string) []Amount {
	amounts := a.Amounts
	for _, t := range a.Tiers {
		switch t.Tier {
		case name:
			return t.Amounts
		case fallback:
			amounts = t.Amounts
		}
	}
	return amounts
}

// allowAt returns the Allow of the first override that applies, or that of the limit.
func (l *Limit) allowAt(x *Domain, request Attributes, now time.Time) Allow {
	if i := l.override(x, request, now); i >= 0 {
		return l.Overrides[i].Allow
	}
	return l.Allow
}

// override returns the index of the first override that applies, or -1.
func (l *Limit) override(x *Domain, request Attributes, now time.Time) int {
	return slices.IndexFunc(l.Overrides, func(o Override) bool {
		return o.isActive(now) && o.When.matches(x, request)
	})
}

// isActive reports whether the override may apply at a time.
func (o *Override) isActive(now time.Time) bool {
	return (o.Until.IsZero() || now.Before(o.Until)) && o.During.contains(now)
}

// of returns the units of a request.
func (c Cost) of(x *Domain, request Attributes) (int64, error) {
	if c.Attribute == "" {
		return max(c.Number, 1), nil
	}
	text := x.value(c.Attribute, request)
	if len(c.Cases) == 0 {
		return parseCost(c.Attribute, text)
	}
	for _, one := range c.Cases {
		if one.Matcher.matches(text) {
			return one.Cost, nil
		}
	}
	return 1, nil
}

// parseCost returns the cost in the value of an attribute.
func parseCost(attribute, text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case text == "":
		return 0, fmt.Errorf("the cost, attribute %s, must be an integer of at least 1, and is missing", attribute)
	case err != nil, n < 1:
		return 0, fmt.Errorf("the cost, attribute %s, must be an integer of at least 1, and is %s", attribute, quoteArgument(text))
	}
	return n, nil
}

// matches reports whether a request meets all conditions, and one element of Any.
func (w When) matches(x *Domain, request Attributes) bool {
	for _, c := range w.All {
		if !c.Matcher.matches(x.value(c.Attribute, request)) {
			return false
		}
	}
	for _, alternative := range w.Any {
		if alternative.matches(x, request) {
			return true
		}
	}
	return len(w.Any) == 0
}

// matches reports whether a value matches. An empty value means that the attribute is absent: it matches only Absent and
// Not.
func (m Matcher) matches(value string) bool {
	switch m.Kind {
	case Absent:
		return value == ""
	case Not:
		return !m.List[0].matches(value)
	case AnyOf:
		return m.matchesAny(value)
	}
	return value != "" && m.matchesText(value)
}

// matchesAny reports whether an element of the list matches.
func (m Matcher) matchesAny(value string) bool {
	for _, one := range m.List {
		if one.matches(value) {
			return true
		}
	}
	return false
}

// matchesText reports whether a text that is not empty matches.
func (m Matcher) matchesText(text string) bool {
	switch m.Kind {
	case Exact:
		return text == m.Text
	case Prefix:
		return strings.HasPrefix(text, m.Text)
	case Template:
		return matchesTemplate(m.Text, text)
	case Glob:
		return glob.Match(m.Text, text)
	case CIDR:
		address, err := netip.ParseAddr(text)
		return err == nil && m.Network.Contains(address.WithZone("").Unmap())
	}
	return true // Present
}

// matchesTemplate reports whether a path matches a template.
func matchesTemplate(template, path string) bool {
	for template != "" {
		segment, rest, more := strings.Cut(template, "/")
		if segment == "*" && !more {
			return true
		}
		part, left, further := strings.Cut(path, "/")
		variable := strings.HasPrefix(segment, "{") && part != ""
		if more != further || !variable && part != segment {
			return false
		}
		template, path = rest, left
	}
	return path == ""
}
