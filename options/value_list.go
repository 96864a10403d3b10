package options

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// words is a list of arbitrary words.
type words struct{ p *[]string }

func (v words) String() string { return strings.Join(*v.p, " ") }
func (v words) want() string   { return "words separated by spaces" }

func (v words) Set(s string) error {
	*v.p = fields(s)
	return nil
}

// fields is strings.Fields, except that it returns nil for no words: an empty list is equal to the zero value.
func fields(s string) []string { return append([]string(nil), strings.Fields(s)...) }

// networks is a list of networks. An address without a length is a network of this address only.
type networks struct{ p *[]netip.Prefix }

func (v networks) want() string { return "networks such as 10.0.0.0/8, or addresses" }

func (v networks) String() string {
	list := make([]string, len(*v.p))
	for i, n := range *v.p {
		list[i] = n.String()
	}
	return strings.Join(list, " ")
}

func (v networks) Set(s string) error {
	var list []netip.Prefix
	for _, word := range strings.Fields(s) {
		n, err := parseNetwork(word)
		if err != nil {
			return fmt.Errorf("argument must be networks such as 10.0.0.0/8, not %s", quote(word))
		}
		list = append(list, n)
	}
	*v.p = list
	return nil
}

// parseNetwork parses a network or an address. Bits after the prefix are refused, since they indicate a mistake.
func parseNetwork(word string) (netip.Prefix, error) {
	if !strings.Contains(word, "/") {
		addr, err := netip.ParseAddr(word)
		return netip.PrefixFrom(addr, addr.BitLen()), err
	}
	n, err := netip.ParsePrefix(word)
	if err == nil && n != n.Masked() {
		return n, errors.New("bits after the prefix")
	}
	return n, err
}

// choices is a list of names, each at most once.
type choices struct {
	p     *[]string
	names []string
}

func (v choices) String() string { return strings.Join(*v.p, " ") }
func (v choices) want() string   { return "a list of " + strings.Join(v.names, ", ") + `, or ""` }

func (v choices) Set(s string) error {
	list := fields(s)
	for i, word := range list {
		at := slices.IndexFunc(v.names, func(name string) bool { return strings.EqualFold(name, word) })
		if at < 0 || slices.Contains(list[:i], v.names[at]) {
			return fmt.Errorf("argument must be a list of %s, each at most once, not %s", strings.Join(v.names, ", "), quote(word))
		}
		list[i] = v.names[at]
	}
	*v.p = list
	return nil
}
