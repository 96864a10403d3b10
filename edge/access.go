package edge

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/throttledhq/throttled/edge/headers"
	"github.com/throttledhq/throttled/edge/httpauth"
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
const tokenHeader = "X-Throttled-Token" // #nosec G101 -- not a secret

// tokenOf returns the password in the header for gateways.
func tokenOf(r *http.Request) (password string, ok bool) {
	values := r.Header[tokenHeader]
	if len(values) != 1 {
		return "", false
	}
	return values[0], true
}

// credentials are a password or token, if the request has one, and the name of the user, if it has a name.
type credentials struct {
	user, password string
	ok             bool
	check          bool // of a gateway
}

// equal reports whether c and other are the same, in a time that does not depend on the contents of passwords.
func (c credentials) equal(other credentials) bool {
	return c.ok == other.ok && c.check == other.check && c.user == other.user && httpauth.Equal(c.password, other.password)
}

// passwordOf returns the credentials in X-Throttled-Token, or in Authorization: Bearer or Basic.
func passwordOf(r *http.Request) (c credentials) {
	if c.password, c.ok = tokenOf(r); c.ok {
		return c
	}
	if values := r.Header["Authorization"]; len(values) == 1 {
		c.user, c.password, c.ok = httpauth.Parse(values[0])
	}
	return c
}

// authenticate finds the user of a request. It refuses requests without a password if one is required, and those with
// wrong ones. A request without a password is not counted as a failure.
func (s *Server) authenticate(x *exchange, c credentials) bool {
	switch {
	case c.ok:
		return s.logIn(x, c)
	case s.certified(x):
		return true
	case s.access.RequiresPassword():
		s.refuseUnauthenticated(x, c.check, "a password is required: send Authorization: Bearer PASSWORD or X-Throttled-Token: PASSWORD")
		return false
	}
	return true
}

// certified finds the user of a request by the certificate of the client.
func (s *Server) certified(x *exchange) (ok bool) {
	x.login, ok = s.access.CertificateUser(x.conn.user)
	return ok
}

// logIn checks the credentials of a request.
func (s *Server) logIn(x *exchange, c credentials) bool {
	users := s.access.Users() // before the check: users that change meanwhile are another pointer
	if x.conn.users == users && x.conn.right.equal(c) {
		x.login = x.conn.login
		return true
	}
	login, err := s.access.Authenticate(x.conn.RemoteAddr(), []byte(c.user), []byte(c.password))
	var later interface{ RetryAfter() time.Duration }
	switch {
	case err == nil:
		x.login = login
		x.conn.right, x.conn.users, x.conn.login = c, users, login
		return true
	case errors.As(err, &later):
		retry := max(int64((later.RetryAfter()+time.Second-1)/time.Second), 1)
		x.sendProblem(&headers.Problem{Type: headers.TypeBlank, Title: "Too Many Requests", Status: http.StatusTooManyRequests, Error: "too_many_failures", Message: err.Error(), Retry: retry})
	default:
		s.refuseUnauthenticated(x, c.check, "the user or the password is wrong")
	}
	return false
}

// refuseUnauthenticated sends 401. The response to a gateway may reach a browser, which must not ask for a password.
func (s *Server) refuseUnauthenticated(x *exchange, check bool, message string) {
	list := challenges
	if check {
		list = challenges[:1]
	}
	x.w.Header()["Www-Authenticate"] = list
	x.fail(http.StatusUnauthorized, "unauthorized", message)
}

// permits refuses users that may not run the command of an endpoint.
func (s *Server) permits(x *exchange, e *endpoint) bool {
	if e.needs == "" || s.access.MayRun(x.login, e.needs) {
		return true
	}
	x.fail(http.StatusForbidden, "forbidden", "user "+strconv.Quote(x.login.Name())+" has no permission to run the command "+e.needs)
	return false
}
