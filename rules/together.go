package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// fixedAttributes holds the attributes that are equal for all requests with the same counted values. These are the
// attributes in "per", and the first attribute of "first_of" of each of them: a request that has it is counted by it, and
// a request that does not have it is counted by another one. All other attributes can differ.
//
// The map has the number of bits in which IPv6 addresses are equal, or wholeText if all of the text is equal.
type fixedAttributes map[string]int

// wholeText is above each prefix length.
const wholeText = 129

// fixedBy returns the attributes that the counted values of a list "per" fix.
func (c *attributeCompiler) fixedBy(per []string) fixedAttributes {
	fixed := make(fixedAttributes, len(per))
	for _, name := range per {
		a := c.definitions[name]
		if a == nil || len(a.FirstOf) == 0 {
			fixed[name] = c.countedBits(name)
			continue
		}
		fixed[name] = wholeText
		for _, source := range a.FirstOf {
			fixed[name] = min(fixed[name], c.countedBits(source))
		}
		// A condition on a name that is derived does not see the attribute of the request with this name.
		if first := c.definitions[a.FirstOf[0]]; first == nil || len(first.FirstOf) == 0 {
			fixed[a.FirstOf[0]] = c.countedBits(a.FirstOf[0])
		}
	}
	return fixed
}

// countedBits returns the number of bits of an IPv6 address by which an attribute of requests is counted, or wholeText.
func (c *attributeCompiler) countedBits(name string) int {
	if a := c.definitions[name]; a != nil && a.IPv6Prefix > 0 {
		return a.IPv6Prefix
	}
	return wholeText
}

// determine reports whether all requests with the same values of f match w, or none of them.
func (f fixedAttributes) determine(w *When) bool {
	for i := range w.All {
		bits, ok := f[w.All[i].Attribute]
		if !ok || !w.All[i].Matcher.dependsOnlyOn(bits) {
			return false
		}
	}
	return !slices.ContainsFunc(w.Any, func(alternative When) bool { return !f.determine(&alternative) })
}

// dependsOnlyOn reports whether m matches all texts that are counted together, or none of them, if IPv6 addresses that are
// equal in the given number of bits are. Addresses in different spellings are also counted together unless bits is wholeText.
func (m *Matcher) dependsOnlyOn(bits int) bool {
	if bits == wholeText {
		return true
	}
	switch m.Kind {
	case Present, Absent, Template: // no address begins with a slash
		return true
	case CIDR:
		return m.Network.Addr().Is4() || m.Network.Bits() <= bits
	case Exact:
		return !looksCounted(m.Text)
	case AnyOf, Not:
		return !slices.ContainsFunc(m.List, func(one Matcher) bool { return !one.dependsOnlyOn(bits) })
	}
	return false
}

// looksCounted reports whether a text is an IP address, or a network in the form in which IPv6 addresses are counted.
// Any other text is counted as it is.
func looksCounted(text string) bool {
	_, err := netip.ParseAddr(text)
	_, errNetwork := netip.ParsePrefix(text)
	return err == nil || errNetwork == nil
}

// together determines which requests of a limit, or of the default of a domain, are counted together.
//
// One counter must not be charged at two rates at the same time: with most algorithms, units are restored at the rate
// of the last charge, so the slower limit would admit requests at the rate of the faster one. So the requests of an
// override, or of a tier, have a counter of their own, unless the counted values determine whether a request belongs to
// it. If they do, the rate of a counter changes only when the file or the time does.
type together struct {
	fixed  fixedAttributes
	byTier bool              // the requests of each tier have a counter of their own
	parts  map[string]string // parts of keys, and the conditions that they stand for
}

// together returns the parts of keys for a limit, or a default, with a list "per" and overrides.
func (c *compiler) together(per []string, overrides []Override) together {
	if c.tierBy == "" && len(overrides) == 0 {
		return together{}
	}
	fixed := c.attributes.fixedBy(per)
	return together{fixed: fixed, byTier: c.tierBy != "" && fixed[c.tierBy] != wholeText, parts: map[string]string{}}
}

// tierPart returns the part of a key that distinguishes the requests of a tier, or "".
func (t *together) tierPart(tier string) string {
	if !t.byTier {
		return ""
	}
	return "@" + tier
}

// overridePart returns the part of a key that distinguishes the requests that meet the conditions of an override, or "".
// It depends only on the conditions, so used units stay used if the amounts, "until" or "during" change. Overrides with
// the same conditions have the same part: only one of them applies at a time.
func (t *together) overridePart(w *When) string {
	if t.fixed.determine(w) {
		return ""
	}
	text := w.canonical()
	sum := sha256.Sum256([]byte(text))
	for n := 4; ; n += 4 { // more digits if the shorter hash is that of another override of this limit
		part := "#" + hex.EncodeToString(sum[:n])
		if other, taken := t.parts[part]; !taken || other == text || n == len(sum) {
			t.parts[part] = text
			return part
		}
	}
}

// canonical returns a text that is equal for conditions that differ only in their order. It is stored in keys in the
// form of a hash, so it must not change.
func (w *When) canonical() string {
	all := make([]string, 0, len(w.All)+1)
	for i := range w.All {
		all = append(all, w.All[i].Attribute+": "+w.All[i].Matcher.canonical())
	}
	slices.Sort(all)
	if len(w.Any) > 0 {
		list := make([]string, len(w.Any))
		for i := range w.Any {
			list[i] = w.Any[i].canonical()
		}
		all = append(all, fmt.Sprintf("%s: %s", anyKey, sortedList(list)))
	}
	return "{" + strings.Join(all, ", ") + "}"
}

// canonical returns String, with each list in the order of its texts. A list of one matcher is that matcher.
func (m *Matcher) canonical() string {
	switch {
	case m.Kind == AnyOf && len(m.List) == 1:
		return m.List[0].canonical()
	case m.Kind == AnyOf:
		list := make([]string, len(m.List))
		for i := range m.List {
			list[i] = m.List[i].canonical()
		}
		return sortedList(list)
	case m.Kind == Not:
		return "{not: " + m.List[0].canonical() + "}"
	}
	return m.String()
}

// sortedList returns a list in brackets.
func sortedList(list []string) string {
	slices.Sort(list)
	return "[" + strings.Join(list, ", ") + "]"
}
