package middleware

import (
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// Rules makes requests that are decided by the rules of the server. The attributes are method, path, host, ip and those in
// Attributes.
type Rules struct {
	// Domain is the name of the rules.
	Domain string
	// Proxies determines the attribute ip, the whole address of the client.
	Proxies Proxies
	// Attributes are called for each request.
	Attributes []func(*http.Request) Attribute
	// Local are limits of each client that the policy Local applies. The server does not use them.
	Local []Limit
}

// Header returns the attribute "unverified." + name with the value of a header. The client chooses the value, so rules
// must not use it to replace a limit by ip: a client with random values would have no limit. A value of more than 1,024
// bytes is replaced by its SHA-256 hash.
func Header(name, header string) func(*http.Request) Attribute {
	name = "unverified." + name
	return func(r *http.Request) Attribute {
		value := r.Header.Get(header)
		if len(value) > maxHeader {
			value = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(value)))
		}
		return Attribute{name, value}
	}
}

// Maximum lengths of attributes that clients choose, as in the HTTP server of throttled. The rest of a longer path is not
// sent.
const (
	maxHeader = 1024
	maxPath   = 4096
)

// Verified returns an attribute with a value that the program has verified, such as the user of a session. If the value is
// empty, the request does not have the attribute.
func Verified(name string, value func(*http.Request) string) func(*http.Request) Attribute {
	return func(r *http.Request) Attribute { return Attribute{name, value(r)} }
}

// Request returns the request for the limiter.
func (s Rules) Request(r *http.Request) Request {
	addr := s.Proxies.Addr(r)
	ip := ""
	if addr.IsValid() {
		ip = addr.String()
	}
	attributes := make([]Attribute, 0, 4+len(s.Attributes))
	attributes = append(attributes, Attribute{"method", r.Method}, Attribute{"path", cleanPath(r.URL.Path)},
		Attribute{"host", hostName(r.Host)}, Attribute{"ip", ip})
	for _, attribute := range s.Attributes {
		attributes = append(attributes, attribute(r))
	}
	request := Request{Domain: s.Domain, Attributes: attributes}
	if len(s.Local) > 0 {
		request.Limits = appendKeyed(nil, s.Local, "ip", s.Proxies.KeyOf(addr))
	}
	return request
}

// hostName returns a Host in lower case and without its port.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// cleanPath normalizes the path of a URL, whose percent-encoding has been decoded, so that rules cannot be evaded by another
// spelling of a path: a backslash is a slash, parameters of segments (";v=1"), empty segments and a slash at the end are
// removed, and dot segments are resolved.
func cleanPath(path string) string {
	segments := make([]string, 0, 16)
	for segment := range strings.SplitSeq(strings.ReplaceAll(path, `\`, "/"), "/") {
		segment, _, _ = strings.Cut(segment, ";")
		switch segment {
		case "", ".":
		case "..":
			segments = segments[:max(len(segments)-1, 0)]
		default:
			segments = append(segments, segment)
		}
	}
	clean := "/" + strings.Join(segments, "/")
	return clean[:min(len(clean), maxPath)]
}
