package attributes

import (
	"fmt"
	"net/textproto"
	"slices"
	"strings"

	"github.com/throttledhq/throttled/internal/nearest"
)

// Unverified is the prefix of the names of attributes whose values the gateway has not verified, so that a client can
// choose them.
const Unverified = "unverified."

// Sources is the declared attributes, in the order of their declarations. A nil *Sources has none. It does not change, and
// may be used by several goroutines.
type Sources struct{ list []source }

// source is one declared attribute.
type source struct {
	attribute string // name in the rules
	kind      kind
	verified  bool
	header    string // in canonical form; "Cookie" for cookies; the namespace of metadata
	part      string // name of the cookie, or path of the claim or of the metadata
}

// kind is the kind of a source.
type kind string

const (
	fromHeader   kind = "header"
	fromCookie   kind = "cookie"
	fromToken    kind = "jwt"
	fromMetadata kind = "metadata"
)

var kinds = []string{string(fromHeader), string(fromCookie), string(fromToken), string(fromMetadata)}

// reserved lists the names of the attributes that each request has.
var reserved = []string{"method", "path", "host", "ip"}

// maxName is the maximum length of the name of an attribute in the rules.
const maxName = 64

// ParseSources parses declarations of the form NAME=[verified:]SOURCE. A SOURCE is header:NAME, cookie:NAME,
// jwt:HEADER:CLAIM, a claim of the token in a header, or metadata:NAMESPACE:PATH, metadata of a filter of Envoy. A claim of
// an object has a path with dots, such as "realm_access.plan"; a claim whose whole name has dots takes precedence.
//
// The attribute of a source that is not verified has the name "unverified.NAME". The sources of tokens are always
// verified: a gateway that forwards a token or its payload in a header has verified it. A header with another scheme than
// Bearer, such as "Authorization: Basic", has no token. Metadata is always verified too, since only filters set it.
//
// The error names the wrong word and the remedy.
func ParseSources(words []string) (*Sources, error) {
	s := &Sources{}
	for _, word := range words {
		one, err := parseSource(word)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(s.list, func(other source) bool { return other.attribute == one.attribute }) {
			return nil, fmt.Errorf("%q: the attribute %s is declared twice; remove one of the declarations", clip(word), one.attribute)
		}
		s.list = append(s.list, one)
	}
	return s, nil
}

// parseSource parses one declaration.
func parseSource(word string) (source, error) {
	name, text, found := strings.Cut(word, "=")
	if !found {
		return source{}, fmt.Errorf("%q has no source; write NAME=SOURCE, such as user=verified:header:X-User", clip(word))
	}
	var s source
	text, s.verified = strings.CutPrefix(text, "verified:")
	kindName, rest, _ := strings.Cut(text, ":")
	s.kind = kind(kindName)
	if err := s.parsePlace(rest); err != nil {
		return source{}, fmt.Errorf("%q: %w", clip(word), err)
	}
	s.verified = s.verified || s.kind == fromToken || s.kind == fromMetadata
	if err := s.setName(name); err != nil {
		return source{}, fmt.Errorf("%q: %w", clip(word), err)
	}
	return s, nil
}

// parsePlace sets the header and the part from the text after the kind.
func (s *source) parsePlace(text string) error {
	switch s.kind {
	case fromHeader:
		s.header = text
	case fromCookie:
		s.header, s.part = "Cookie", text
		if !isToken(s.part) {
			return fmt.Errorf("%q is not the name of a cookie; write cookie:NAME, such as cookie:session", clip(s.part))
		}
	case fromToken:
		s.header, s.part, _ = strings.Cut(text, ":")
		if s.part == "" {
			return fmt.Errorf("%q has no claim; write jwt:HEADER:CLAIM, such as jwt:X-Jwt-Payload:sub", clip("jwt:"+text))
		}
	case fromMetadata:
		s.header, s.part, _ = strings.Cut(text, ":")
		if s.header == "" || s.part == "" {
			return fmt.Errorf("%q has no namespace or no path; write metadata:NAMESPACE:PATH, such as metadata:envoy.filters.http.jwt_authn:jwt_payload.sub", clip("metadata:"+text))
		}
		return nil
	default:
		return unknownKind(string(s.kind))
	}
	if !isToken(s.header) {
		return fmt.Errorf("%q is not the name of a header; write a name such as X-User", clip(s.header))
	}
	s.header = textproto.CanonicalMIMEHeaderKey(s.header)
	return nil
}

// unknownKind returns the error of a kind that does not exist.
func unknownKind(word string) error {
	remedy := "write header:NAME, cookie:NAME, jwt:HEADER:CLAIM or metadata:NAMESPACE:PATH"
	if near := nearest.Word(word, append(kinds, "verified")); near != "" {
		remedy = fmt.Sprintf("did you mean %q?", near+":")
	}
	return fmt.Errorf("%q is not a kind of source; %s", clip(word), remedy)
}

// setName sets the name of the attribute. The field verified must be set.
func (s *source) setName(name string) error {
	most := maxName
	s.attribute = name
	if !s.verified {
		most -= len(Unverified)
		s.attribute = Unverified + name
	}
	switch {
	case len(name) < 1 || len(name) > most || strings.ContainsFunc(name, func(r rune) bool { return !isNameRune(r) }):
		return fmt.Errorf(`%q is not a name; a name has 1 to %d letters, digits, "-", "_" or "."`, clip(name), most)
	case slices.Contains(reserved, name):
		return fmt.Errorf("each request has an attribute %s; choose another name", name)
	case strings.HasPrefix(name, Unverified):
		return fmt.Errorf("the prefix %q is added to the names of sources that are not verified; remove it", Unverified)
	}
	return nil
}

// isNameRune reports whether r may be in the name of an attribute, as in rules files.
func isNameRune(r rune) bool {
	return r < 0x80 && isLetterOrDigit(byte(r)) || r == '-' || r == '_' || r == '.'
}

// isToken reports whether text is a token of RFC 9110, as the names of headers and cookies are.
func isToken(text string) bool {
	for i := range len(text) {
		if c := text[i]; !isLetterOrDigit(c) && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return text != ""
}

// clip shortens a text for an error.
func clip(text string) string {
	const most = 80
	if len(text) <= most {
		return text
	}
	return text[:most] + "..."
}
