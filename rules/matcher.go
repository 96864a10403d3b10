package rules

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/throttledhq/throttled/internal/glob"
)

// Matcher is a condition on the value of one attribute.
//
// In a rules file, a text is a matcher whose kind follows from its form:
//
//	/login               Exact: the same text
//	/api/*               Prefix: text that begins with /api/. The only star must be at the end
//	"*"                  Present: any text
//	/users/{id}/orders   Template: a path with any one non-empty segment in place of {id}. If the last segment is *,
//	                     the rest of the path is arbitrary
//	"*.example.com"      Glob: text with another star; see package internal/glob
//	10.0.0.0/8           CIDR: an IP address within the network; an address without length matches itself in each of
//	                     its spellings
//
// A text that has the form of an IP network, and is none, such as 10.0.0/8, is refused.
//
// A list matches if one of its matchers does. The kind can also be given as a map with one key: exact, prefix,
// template, glob, cidr, present or not. For example, {exact: "/a/*"} matches only the text "/a/*", {present: false}
// matches a request without the attribute, and {not: bob} matches a request without the attribute or with another
// value.
type Matcher struct {
	Kind    MatcherKind
	Text    string       // Exact, Prefix (without the star), Template and Glob
	Network netip.Prefix // CIDR, without host bits
	List    []Matcher    // AnyOf; Not has exactly one
}

// MatcherKind is the kind of a Matcher.
type MatcherKind uint8

// The kinds of a Matcher.
const (
	Exact MatcherKind = iota
	Prefix
	Template
	Glob
	CIDR
	Present // requests with the attribute
	Absent  // requests without the attribute
	AnyOf   // one of List matches
	Not     // List[0] does not match
)

var matcherKinds = [...]string{"exact", "prefix", "template", "glob", "cidr", "present", "absent", "any of", "not"}

// String returns the name of the kind.
func (k MatcherKind) String() string { return matcherKinds[k] }

// String returns the matcher as YAML on one line. Parsing the result returns an equal Matcher.
func (m Matcher) String() string {
	switch m.Kind {
	case CIDR:
		return fmt.Sprintf("{cidr: %q}", m.Network)
	case Present:
		return "{present: true}"
	case Absent:
		return "{present: false}"
	case AnyOf:
		items := make([]string, len(m.List))
		for i, item := range m.List {
			items[i] = item.String()
		}
		return "[" + strings.Join(items, ", ") + "]"
	case Not:
		return "{not: " + m.List[0].String() + "}"
	}
	return fmt.Sprintf("{%v: %s}", m.Kind, quoteYAML(m.Text))
}

// quoteYAML returns the text in the single quotes of YAML, or in double quotes if it has characters that a rules file has
// only in escaped form.
func quoteYAML(text string) string {
	if strings.ContainsFunc(text, isControl) {
		return strconv.QuoteToASCII(text) // each escape of Go has the same meaning in YAML
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

// Errors of texts that have the form of a pattern.
var (
	errAmbiguous = errors.New(`?, [ and \ may be meant as a pattern or as they are`)
	errBraces    = errors.New("a path template must begin with / and have whole segments in braces, such as /users/{id}")
	errStar      = errors.New("a star in a path template must be the last segment, such as /users/{id}/*")
	errNetwork   = errors.New("not an IP network: write an address and a prefix length, such as 10.0.0.0/8")
)

// hostBitsError is the error of a network with bits after its prefix.
type hostBitsError struct{ masked netip.Prefix }

func (e *hostBitsError) Error() string {
	return fmt.Sprintf("the address has bits after its prefix length: write %v", e.masked)
}

// parseForm returns the matcher for a text according to its form.
func parseForm(text string) (Matcher, error) {
	star := strings.IndexByte(text, '*')
	switch {
	case text == "*":
		return Matcher{Kind: Present}, nil
	case looksLikeIP(text):
		return parseCIDR(text)
	case strings.ContainsAny(text, "{}"):
		return parseTemplate(text)
	case star >= 0 && star == len(text)-1 && !strings.ContainsAny(text, `?[\`):
		return Matcher{Kind: Prefix, Text: text[:star]}, nil
	case star >= 0:
		return parseGlob(text)
	case strings.ContainsAny(text, `?[\`):
		return Matcher{}, errAmbiguous
	case resemblesNetwork(text):
		return Matcher{}, errNetwork
	}
	return Matcher{Kind: Exact, Text: text}, nil
}

// parseGlob returns the matcher for a pattern.
func parseGlob(text string) (Matcher, error) {
	if err := glob.Check(text); err != nil {
		return Matcher{}, err
	}
	return Matcher{Kind: Glob, Text: text}, nil
}

// looksLikeIP reports whether the part of the text before "/" is an IP address without a zone.
func looksLikeIP(text string) bool {
	address, _, _ := strings.Cut(text, "/")
	parsed, err := netip.ParseAddr(address)
	return err == nil && parsed.Zone() == ""
}

// resemblesNetwork reports whether a text that is no IP address or network is probably meant as one:
//
//   - four groups of digits with dots, or any number of groups with dots and a prefix length: 300.0.0.0, 10.0.0/8
//   - hexadecimal groups with at least two colons, or with one colon and a prefix length: 2001:db8:1, 2001:/16. Times of
//     day and MAC addresses are frequent in other attributes: their groups have two digits each, and no prefix length
func resemblesNetwork(text string) bool {
	const digits = "0123456789"
	address, length, _ := strings.Cut(text, "/")
	address, _, _ = strings.Cut(strings.TrimSpace(address), "%") // before the zone
	length = strings.TrimSpace(length)
	hasLength := length != "" && consistsOf(length, digits+".")
	if dots := strings.Count(address, "."); consistsOf(address, digits+".") {
		return dots == 3 && address != "..." || dots > 0 && hasLength
	}
	if colons := strings.Count(address, ":"); consistsOf(address, digits+"abcdefABCDEF:.") {
		return colons > 1 && !isPairs(address) || colons > 0 && hasLength
	}
	return false
}

// consistsOf reports whether all bytes of a text are among characters.
func consistsOf(text, characters string) bool { return strings.Trim(text, characters) == "" }

// isPairs reports whether all groups of a text between colons have two characters.
func isPairs(text string) bool {
	return !slices.ContainsFunc(strings.Split(text, ":"), func(group string) bool { return len(group) != 2 })
}

// parseCIDR returns the matcher for a network, or for a single address. An IPv4 address that is mapped to IPv6 is the
// same as the IPv4 address.
func parseCIDR(text string) (Matcher, error) {
	if address, err := netip.ParseAddr(text); err == nil && address.Zone() == "" {
		address = address.Unmap()
		return Matcher{Kind: CIDR, Network: netip.PrefixFrom(address, address.BitLen())}, nil
	}
	network, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return Matcher{}, errNetwork
	case network.Addr().Is4In6() && network.Bits() >= 96:
		return Matcher{}, &hostBitsError{netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-96).Masked()}
	case network != network.Masked():
		return Matcher{}, &hostBitsError{network.Masked()}
	}
	return Matcher{Kind: CIDR, Network: network}, nil
}

// parseTemplate returns the matcher for a path template.
func parseTemplate(text string) (Matcher, error) {
	if !strings.HasPrefix(text, "/") {
		return Matcher{}, errBraces
	}
	segments := strings.Split(text[1:], "/")
	for i, segment := range segments {
		inner, braced := strings.CutPrefix(segment, "{")
		inner, closed := strings.CutSuffix(inner, "}")
		switch {
		case segment == "*" && i == len(segments)-1:
		case strings.Contains(segment, "*"):
			return Matcher{}, errStar
		case braced != closed, strings.ContainsAny(inner, "{}"), braced && !isName(inner):
			return Matcher{}, errBraces
		}
	}
	return Matcher{Kind: Template, Text: text}, nil
}
