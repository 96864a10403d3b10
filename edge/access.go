package edge

import (
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/edge/headers"
)

// accepts reports whether protected mode accepts the client.
func (s *Server) accepts(x *exchange) bool {
	return x.conn.Conn == nil || s.access.Accepts(x.conn.RemoteAddr())
}

// accept refuses clients on other hosts in protected mode.
func (s *Server) accept(x *exchange) bool {
	if s.accepts(x) {
		return true
	}
	x.close()
	x.fail(http.StatusForbidden, "protected_mode", "protected mode accepts only clients on this host: set requirepass, and send the password")
	return false
}

// fromHere refuses requests that the page of another site can have caused in a browser: those with an unknown Host (DNS
// rebinding), and those with an Origin. Check requests are not examined, since gateways forward these headers.
func (s *Server) fromHere(x *exchange) bool {
	if len(x.r.Header["Origin"]) > 0 {
		x.fail(http.StatusForbidden, "origin", "requests of pages in browsers are refused: send no Origin header")
		return false
	}
	if !s.access.RequiresPassword() && !s.knowsHost(x.r) {
		x.close()
		x.fail(http.StatusMisdirectedRequest, "unknown_host", "the name in the Host header is unknown: use localhost or an IP address, or add the name to http-hosts")
		return false
	}
	return true
}

// knowsHost reports whether the Host is localhost, an IP address, or one of the option http-hosts. A request of HTTP/1.0, such
// as a health check of HAProxy, needs none: browsers do not send such requests.
func (s *Server) knowsHost(r *http.Request) bool {
	host := r.Host
	if host == "" {
		return r.ProtoMinor == 0
	}
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	if name == "localhost" {
		return true
	}
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return true
	}
	return s.hosts[strings.ToLower(strings.TrimSuffix(name, "."))]
}

func hostNames(names []string) map[string]bool {
	m := map[string]bool{"localhost": true}
	for _, name := range names {
		m[strings.ToLower(strings.TrimSuffix(name, "."))] = true
	}
	return m
}

// tokenHeader has the password of a gateway, whose clients have an Authorization header of their own.
const tokenHeader = "X-Throttled-Token"

// tokenOf returns the password in the header for gateways.
func tokenOf(r *http.Request) (password string, ok bool) {
	values := r.Header[tokenHeader]
	if len(values) != 1 {
		return "", false
	}
	return values[0], true
}

// credentials is a password, if the request has one.
type credentials struct {
	password string
	ok       bool
	check    bool // of a gateway
}

// passwordOf returns the password in X-Throttled-Token, or in Authorization: Bearer or Basic. The user name is ignored.
func passwordOf(r *http.Request) (c credentials) {
	if c.password, c.ok = tokenOf(r); c.ok {
		return c
	}
	values := r.Header["Authorization"]
	if len(values) != 1 {
		return c
	}
	scheme, value, _ := strings.Cut(values[0], " ")
	value = strings.TrimSpace(value)
	switch {
	case strings.EqualFold(scheme, "Bearer"):
		c.password, c.ok = value, true
	case strings.EqualFold(scheme, "Basic"):
		decoded, err := base64.StdEncoding.DecodeString(value)
		if err == nil {
			_, c.password, c.ok = strings.Cut(string(decoded), ":")
		}
	}
	return c
}

// authenticate refuses requests without the password, if one is required. A request without any is not counted as a
// failure.
func (s *Server) authenticate(x *exchange, c credentials) bool {
	users := s.access.Users() // before the check: users that change meanwhile are another pointer
	if !s.access.RequiresPassword() {
		return true
	}
	if !c.ok {
		s.refuseUnauthenticated(x, c, "a password is required: send Authorization: Bearer PASSWORD or X-Throttled-Token: PASSWORD")
		return false
	}
	if x.conn.checkedFor == users && x.conn.password == c.password {
		return true
	}
	_, err := s.access.Authenticate(x.conn.RemoteAddr(), []byte(acl.DefaultName), []byte(c.password))
	var later interface{ RetryAfter() time.Duration }
	switch {
	case err == nil:
		x.conn.password, x.conn.checkedFor = c.password, users
		return true
	case errors.As(err, &later):
		retry := max(int64((later.RetryAfter()+time.Second-1)/time.Second), 1)
		x.sendProblem(&headers.Problem{Type: headers.TypeBlank, Title: "Too Many Requests", Status: http.StatusTooManyRequests, Error: "too_many_failures", Message: err.Error(), Retry: retry})
	default:
		s.refuseUnauthenticated(x, c, "the password is wrong")
	}
	return false
}

// refuseUnauthenticated sends 401. The response to a gateway may reach a browser, which must not ask for a password.
func (s *Server) refuseUnauthenticated(x *exchange, c credentials, message string) {
	list := challenges
	if c.check {
		list = challenges[:1]
	}
	x.w.Header()["Www-Authenticate"] = list
	x.fail(http.StatusUnauthorized, "unauthorized", message)
}
