package rules

import (
	"net/netip"
	"slices"
	"strings"
)

// accessKey is a property that a request must have in order to meet a condition.
type accessKey struct {
	attribute attributeID
	kind      accessKind
	text      string // "" for byPresent; see networkText for byNetwork; reversed for bySuffix
}

// accessKind is the kind of an accessKey.
type accessKind uint8

const (
	byExact     accessKind = iota // the value is the text
	byNetwork                     // the value is an address in the network
	byTemplate                    // the value matches the template
	byPrefix                      // the value begins with the text
	bySuffix                      // the value ends with the text
	byPresent                     // the attribute is present
	accessKinds                   // number of kinds
)

// accessWeights estimates how many more requests have a key of each kind than an exact key.
var accessWeights = [accessKinds]uint64{byExact: 1, byNetwork: 2, byTemplate: 2, byPrefix: 4, bySuffix: 4, byPresent: 16}

// appendKeys appends the keys of a condition: a request that meets the condition has one of them. ok is false if there
// is no such list, as for conditions on absent attributes.
func (m *compiledMatcher) appendKeys(keys []accessKey, id attributeID) (list []accessKey, ok bool) {
	switch m.kind {
	case AnyOf:
		for i := range m.more.list {
			if keys, ok = m.more.list[i].appendKeys(keys, id); !ok {
				return nil, false
			}
		}
		return keys, true
	case Glob:
		key := globKey(m.text)
		key.attribute = id
		return append(keys, key), true
	case Absent, Not:
		return nil, false
	}
	key := accessKey{attribute: id, kind: accessKindOf[m.kind], text: m.text}
	if m.kind == CIDR {
		key.text = networkText(m.more.network.Masked())
	}
	return append(keys, key), true
}

// accessKindOf maps the kinds of a Matcher that have one key to the kind of this key.
var accessKindOf = [...]accessKind{Exact: byExact, Prefix: byPrefix, Template: byTemplate, CIDR: byNetwork, Present: byPresent}

// globKey returns a key for the longer one of the literal texts at the start and at the end of a pattern.
func globKey(pattern string) accessKey {
	first := strings.IndexAny(pattern, `*?[\`)
	if first < 0 {
		return accessKey{kind: byExact, text: pattern}
	}
	prefix, suffix := pattern[:first], ""
	if !strings.ContainsAny(pattern, `[\`) {
		suffix = pattern[strings.LastIndexAny(pattern, "*?")+1:]
	}
	switch {
	case len(suffix) > len(prefix):
		return accessKey{kind: bySuffix, text: reversed(suffix)}
	case prefix != "":
		return accessKey{kind: byPrefix, text: prefix}
	}
	return accessKey{kind: byPresent}
}

// reversed returns the bytes of a text in reverse order.
func reversed(text string) string {
	b := []byte(text)
	slices.Reverse(b)
	return string(b)
}

// networkText returns the bytes of the address of a network, and its prefix length.
func networkText(network netip.Prefix) string {
	return string(append(network.Addr().AsSlice(), byte(network.Bits())))
}

// textNetwork returns the network with a networkText.
func textNetwork(text string) netip.Prefix {
	last := len(text) - 1
	address, _ := netip.AddrFromSlice([]byte(text[:last]))
	return netip.PrefixFrom(address, int(text[last]))
}
