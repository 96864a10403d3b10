package attributes

import (
	"fmt"
	"net/netip"
	"strings"
)

// Request is the parts of an original request that become attributes.
type Request struct {
	Method string
	Target string     // path with an optional query, as the client has sent it
	Host   string     // with an optional port
	IP     netip.Addr // of the client; see Proxies
	// Header returns the values of all lines of a header, in their order. The name is in canonical form, such as
	// "X-User". It is called only for the headers of the declared Sources.
	Header func(name string) []string
	// Metadata returns metadata that a filter of Envoy has set, or "" if there is none. It is called only for declared
	// Sources. Optional.
	Metadata func(namespace, path string) string
}

// Append appends the names and values of the attributes of a request to pairs: method, path, host, ip, and those that are
// declared. A value that is empty or absent is omitted.
//
// The error wraps ErrRequest or ErrGateway; pairs is then returned unchanged.
func (s *Sources) Append(pairs []string, r *Request) ([]string, error) {
	path, err := NormalizePath(r.Target)
	if err != nil {
		return pairs, err
	}
	host, err := normalizeHost(r.Host)
	if err != nil {
		return pairs, err
	}
	if len(r.Method) > MaxValue {
		return pairs, fmt.Errorf("%w: the method has %d bytes; at most %d are allowed", ErrRequest, len(r.Method), MaxValue)
	}
	all := appendPair(appendPair(appendPair(pairs, "method", r.Method), "path", path), "host", host)
	if r.IP.IsValid() {
		all = appendPair(all, "ip", plain(r.IP).String())
	}
	if s == nil || len(s.list) == 0 {
		return all, nil
	}
	if all, err = s.appendDeclared(all, r); err != nil {
		return pairs, err
	}
	return all, nil
}

// appendDeclared appends the declared attributes.
func (s *Sources) appendDeclared(pairs []string, r *Request) ([]string, error) {
	var last token
	for i := range s.list {
		one := &s.list[i]
		value, err := one.find(r, &last)
		if err == nil {
			value, err = one.limit(value)
		}
		if err != nil {
			return nil, fmt.Errorf("attribute %s: %w", one.attribute, err)
		}
		pairs = appendPair(pairs, one.attribute, value)
	}
	return pairs, nil
}

// find returns the value of a source in a request, or "" if it is absent.
func (s *source) find(r *Request, last *token) (string, error) {
	switch {
	case s.kind != fromMetadata:
		return s.value(r.Header(s.header), last)
	case r.Metadata == nil:
		return "", nil
	}
	return r.Metadata(s.header, s.part), nil
}

// appendPair appends an attribute, unless its value is empty.
func appendPair(pairs []string, name, value string) []string {
	if value == "" {
		return pairs
	}
	return append(pairs, name, value)
}

// normalizeHost returns a host in lower case, without a port, without the brackets of an IPv6 address, and without a dot at
// the end. A host that is normal already is returned without an allocation.
func normalizeHost(host string) (string, error) {
	name := host
	if strings.HasPrefix(name, "[") {
		name, _, _ = strings.Cut(name[1:], "]")
	} else if at := strings.LastIndexByte(name, ':'); at >= 0 {
		name = name[:at]
	}
	name = strings.TrimSuffix(name, ".")
	if len(name) > maxHost {
		return "", fmt.Errorf("%w: the host has %d bytes; at most %d are allowed", ErrRequest, len(name), maxHost)
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c >= 0x7F || strings.IndexByte(`/\?#@"<>,`, c) >= 0 {
			return "", fmt.Errorf("%w: %q is not a host", ErrRequest, clip(host))
		}
	}
	return strings.ToLower(name), nil
}

// maxHost is the maximum length of a host in bytes: that of a name in the domain name system.
const maxHost = 255
