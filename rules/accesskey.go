package rules

import (
	"net/netip"
	"slices"
	"strings"
)

// accessKey is a property that a request must have in order to meet a condition.
type accessKey struct {
	attribute attributeID
	kind      keyKind
	text      string       // except keyNetwork and keyPresent; reversed for keySuffix
	network   netip.Prefix // keyNetwork
}

// keyKind is the kind of an accessKey.
type keyKind uint8

const (
	keyExact    keyKind = iota // the value is the text
	keyNetwork                 // the value is an address in the network
	keyTemplate                // the value matches the template
	keyPrefix                  // the value begins with the text
	keySuffix                  // the value ends with the text
	keyPresent                 // the attribute is present
	keyKinds                   // number of kinds
)

// keyWeights estimates how many more requests have a key of each kind than an exact key.
var keyWeights = [keyKinds]uint64{keyExact: 1, keyNetwork: 2, keyTemplate: 2, keyPrefix: 4, keySuffix: 4, keyPresent: 16}

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
	key := accessKey{attribute: id, kind: keyKindOf[m.kind], text: m.text}
	if m.kind == CIDR {
		key.network = m.more.network.Masked()
	}
	return append(keys, key), true
}

// keyKindOf maps the kinds of a Matcher that have one key to the kind of this key.
var keyKindOf = [...]keyKind{Exact: keyExact, Prefix: keyPrefix, Template: keyTemplate, CIDR: keyNetwork, Present: keyPresent}

// globKey returns a key for the longer one of the literal texts at the start and at the end of a pattern.
func globKey(pattern string) accessKey {
	first := strings.IndexAny(pattern, `*?[\`)
	if first < 0 {
		return accessKey{kind: keyExact, text: pattern}
	}
	prefix, suffix := pattern[:first], ""
	if !strings.ContainsAny(pattern, `[\`) {
		suffix = pattern[strings.LastIndexAny(pattern, "*?")+1:]
	}
	switch {
	case len(suffix) > len(prefix):
		return accessKey{kind: keySuffix, text: reversed(suffix)}
	case prefix != "":
		return accessKey{kind: keyPrefix, text: prefix}
	}
	return accessKey{kind: keyPresent}
}

// reversed returns the bytes of a text in reverse order.
func reversed(text string) string {
	b := []byte(text)
	slices.Reverse(b)
	return string(b)
}
