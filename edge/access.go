package edge

import (
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// tokenHeader is the header with the password. A gateway must overwrite it.
const tokenHeader = "X-Throttled-Token"

// authorize returns an error unless the client may use the server. On check endpoints, the header Authorization is that of
// a client of the gateway, so it is not read.
func (s *Server) authorize(r *http.Request, check bool) error {
	p := peerOf(r)
	if !s.config.Access.Accepts(p.addr) {
		return refuse(http.StatusForbidden, "protected_mode", "in protected mode without a password, only clients on this host are accepted; set requirepass")
	}
	if !s.config.Access.RequiresPassword() {
		return nil
	}
	password, given := passwordOf(r, check)
	if !given {
		return unauthorized("a password is required: send it in the header %s", tokenHeader)
	}
	err := s.config.Access.Authenticate(p.addr, []byte(password))
	var many interface{ RetryIn() time.Duration }
	switch {
	case err == nil:
		return nil
	case errors.As(err, &many):
		e := refuse(http.StatusTooManyRequests, "too_many_failures", "%v", err).(*problemError)
		e.retry = int64(many.RetryIn().Seconds()) + 1
		return e
	}
	return unauthorized("%v", err)
}

func unauthorized(format string, args ...any) error {
	e := refuse(http.StatusUnauthorized, "unauthorized", format, args...).(*problemError)
	e.header = map[string]string{"WWW-Authenticate": `Bearer realm="throttled"`}
	return e
}

// passwordOf returns the password of a request. given is false if there is none, or more than one.
func passwordOf(r *http.Request, check bool) (password string, given bool) {
	if values := r.Header[tokenHeader]; len(values) > 0 || check {
		if len(values) != 1 {
			return "", false
		}
		return values[0], true
	}
	values := r.Header["Authorization"]
	if len(values) != 1 {
		return "", false
	}
	scheme, rest, _ := strings.Cut(values[0], " ")
	switch rest = strings.TrimSpace(rest); strings.ToLower(scheme) {
	case "bearer":
		return rest, true
	case "basic":
		decoded, err := base64.StdEncoding.DecodeString(rest)
		_, password, found := strings.Cut(string(decoded), ":")
		return password, err == nil && found
	}
	return "", false
}

// checkOrigin returns an error for requests that a page in a browser may have sent. Without a password, a name in Host
// that is not known can be one whose address an attacker has changed to that of this server (DNS rebinding).
func (s *Server) checkOrigin(r *http.Request) error {
	if origin := r.Header.Get("Origin"); origin != "" && !isSameOrigin(origin, r.Host) {
		return refuse(http.StatusForbidden, "cross_origin", "requests of pages of other origins are refused")
	}
	if s.config.Access.RequiresPassword() {
		return nil
	}
	host := hostOf(r.Host)
	if _, err := netip.ParseAddr(host); err == nil || s.hosts[host] {
		return nil
	}
	return refuse(http.StatusMisdirectedRequest, "unknown_host", "the host %s is not known; add it to the option http-hosts", strconv.Quote(r.Host))
}

func isSameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && strings.EqualFold(u.Host, host)
}

// hostOf returns a host in lower case, without the port and without the brackets of an IPv6 address.
func hostOf(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}
