package envoy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/throttledhq/throttled/rules"
)

// Entry is an entry of a descriptor of a request.
type Entry struct{ Key, Value string }

// keysAttribute is the attribute with the keys of a descriptor.
const keysAttribute = "descriptor"

// Pairs returns the names and the values of the attributes of a descriptor, alternately, as in CL.CHECK.
//
// The first attribute is "descriptor". Its value is the list of the keys in their order, separated by commas. The
// characters "%" and "," and control characters of a key are written as %XX. Each entry is an attribute: its name is the
// key, and its value is the value. If the key is not a valid name (see [rules.IsName]), or is the key of an earlier
// entry, "descriptor" or "any", or begins with "entry.", the name is "entry.N", where N is the position of the entry,
// from 1.
func Pairs(entries []Entry) []string { return AppendPairs(nil, entries) }

// AppendPairs appends the result of [Pairs] to pairs.
func AppendPairs(pairs []string, entries []Entry) []string {
	var few [8]string // most descriptors need no allocation
	keys := few[:0]
	for i := range entries {
		keys = append(keys, entries[i].Key)
	}
	pairs = append(pairs, keysAttribute, joinKeys(keys))
	for i := range entries {
		pairs = append(pairs, attributeName(keys, i), entries[i].Value)
	}
	return pairs
}

// joinKeys returns the value of the attribute "descriptor".
func joinKeys(keys []string) string {
	if len(keys) == 1 {
		return escape(keys[0])
	}
	var b strings.Builder
	for i, key := range keys {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(escape(key))
	}
	return b.String()
}

// escape writes the characters of a key that have a meaning in a list of keys as %XX.
func escape(key string) string {
	special := func(r rune) bool { return r == '%' || r == ',' || r < ' ' || r == 0x7f }
	if !strings.ContainsFunc(key, special) {
		return key
	}
	var b strings.Builder
	for i := range len(key) {
		if c := key[i]; special(rune(c)) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// attributeNames returns the name of the attribute of each entry.
func attributeNames(keys []string) []string {
	names := make([]string, len(keys))
	for i := range keys {
		names[i] = attributeName(keys, i)
	}
	return names
}

// attributeName returns the name of the attribute of entry i.
func attributeName(keys []string, i int) string {
	key := keys[i]
	if !rules.IsName(key) || key == keysAttribute || key == "any" || strings.HasPrefix(key, "entry.") || slices.Contains(keys[:i], key) {
		return fmt.Sprintf("entry.%d", i+1)
	}
	return key
}

// Replaced reports for each descriptor of a request whether its limit is not charged, because the limit of another
// descriptor replaces it. The argument has the limit of each descriptor, or nil if the descriptor has none.
func Replaced(limits []*rules.Limit) []bool {
	names := map[string]bool{}
	for _, l := range limits {
		if l != nil {
			for _, name := range l.Envoy.Replaces {
				names[name] = true
			}
		}
	}
	replaced := make([]bool, len(limits))
	for i, l := range limits {
		replaced[i] = l != nil && names[l.Envoy.Name] && l.Envoy.Name != ""
	}
	return replaced
}

// OverLimit reports whether a request is refused: one of its limits without quota mode refuses it, or all of its limits
// with quota mode do. The arguments have the limit of each descriptor, and whether it refuses the request. The limit is
// nil if the descriptor has none, or if it is replaced. Limits with the amount "unlimited" do not count.
func OverLimit(limits []*rules.Limit, refused []bool) bool {
	quotas, refusedQuotas := 0, 0
	for i, l := range limits {
		switch {
		case l == nil || isUnlimited(l):
		case !l.Envoy.QuotaMode && refused[i]:
			return true
		case l.Envoy.QuotaMode:
			quotas++
			if refused[i] {
				refusedQuotas++
			}
		}
	}
	return quotas > 0 && quotas == refusedQuotas
}

// isUnlimited reports whether a limit admits all requests.
func isUnlimited(l *rules.Limit) bool {
	return len(l.Allow.Amounts) == 1 && l.Allow.Amounts[0].Kind == rules.Unlimited
}
