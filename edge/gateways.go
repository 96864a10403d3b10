package edge

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/throttledhq/throttled/edge/attributes"
	"github.com/throttledhq/throttled/edge/decision"
	"github.com/throttledhq/throttled/edge/headers"
)

// gateway is one check endpoint: the headers that the gateway sets in each check request, and the statuses that it
// supports. No other header describes the original request, since a client could have sent it.
type gateway struct {
	name   string
	method string // header with the original method; "" if the check request has this method itself
	target string // header with the original path and query; "" if the path of the check request ends with them
	host   string // header with the original Host; "" if the check request has it itself

	refused int // status of a refusal
	invalid int // status if the client has sent invalid data. The gateway must not regard it as a failure of the limiter
}

// nginx accepts only 401 and 403 as refusals: it treats any other status as a failure.
var gateways = []gateway{
	{"nginx", "X-Original-Method", "X-Original-Uri", "X-Forwarded-Host", http.StatusForbidden, http.StatusForbidden},
	{"envoy", "", "", "", http.StatusTooManyRequests, http.StatusBadRequest},
	{"traefik", "X-Forwarded-Method", "X-Forwarded-Uri", "X-Forwarded-Host", http.StatusTooManyRequests, http.StatusBadRequest},
	{"caddy", "X-Forwarded-Method", "X-Forwarded-Uri", "X-Forwarded-Host", http.StatusTooManyRequests, http.StatusBadRequest},
	{"haproxy", "X-Forwarded-Method", "X-Forwarded-Uri", "X-Forwarded-Host", http.StatusTooManyRequests, http.StatusBadRequest},
	{"apisix", "X-Forwarded-Method", "X-Forwarded-Uri", "X-Forwarded-Host", http.StatusTooManyRequests, http.StatusBadRequest},
}

// checkNames holds the names of the check endpoints for metrics, in the order of gateways.
var checkNames = func() (names []string) {
	for i := range gateways {
		names = append(names, checkPrefix+gateways[i].name)
	}
	return names
}()

// routeCheck finds the gateway of a check request. The path without the prefix is GATEWAY/DOMAIN, and for Envoy
// GATEWAY/DOMAIN/PATH.
func (s *Server) routeCheck(x *exchange, rest string) {
	name, rest := segment(rest)
	for i := range gateways {
		if gateways[i].name != name {
			continue
		}
		x.endpoint = checkNames[i]
		x.markError() // until there is a decision
		token, ok := tokenOf(x.r)
		if s.authenticate(x, credentials{password: token, ok: ok, check: true}) {
			x.conn.accepted()
			s.check(x, &gateways[i], rest)
		}
		return
	}
	x.fail(http.StatusNotFound, "not_found", "unknown gateway: use /check/ and "+gatewayNames()+", and then the domain")
}

// markError reports in X-RateLimit-Decision that the request was not decided.
func (x *exchange) markError() { x.w.Header()["X-RateLimit-Decision"] = decisionValues[decisionError] }

func gatewayNames() string {
	names := make([]string, len(gateways))
	for i := range gateways {
		names[i] = gateways[i].name
	}
	return strings.Join(names, ", ")
}

// segment returns the first segment of a path without a slash at its beginning, and the rest of the path, which begins
// with a slash or a question mark, or is empty.
func segment(path string) (first, rest string) {
	for i := range len(path) {
		if path[i] == '/' || path[i] == '?' {
			return path[:i], path[i:]
		}
	}
	return path, ""
}

// check decides the original request that a gateway describes.
func (s *Server) check(x *exchange, g *gateway, rest string) {
	domain := s.domain
	if strings.HasPrefix(rest, "/") {
		var named string
		if named, rest = segment(rest[1:]); named != "" && named != "-" {
			domain = named
		}
	}
	pairs, err := s.describe(x, g, rest)
	switch {
	case err != nil:
		s.refuseCheck(x, g, err)
		return
	case domain == "":
		s.refuseCheck(x, g, errNoDomain)
		return
	}
	x.pairs = pairs
	x.reqs = append(x.reqs[:0], decision.Request{Domain: domain, Pairs: pairs, Cost: 1})
	x.results = grow(x.results, 1)
	if err := s.checker.Check(x.login, x.reqs, x.results); err != nil {
		s.unavailable(x, err)
		return
	}
	s.answerCheck(x, g, &x.results[0])
}

var errNoDomain = fmt.Errorf("%w: the path names no domain, and the option edge-domain is not set", attributes.ErrGateway)

// describe returns the attributes of the original request.
func (s *Server) describe(x *exchange, g *gateway, rest string) ([]string, error) {
	r := x.r
	original := attributes.Request{Method: r.Method, Target: rest, Host: r.Host, Header: x.header}
	var err error
	if g.target == "" {
		if original.Target == "" || original.Target[0] != '/' {
			return nil, fmt.Errorf("%w: the path of the original request must follow the domain", attributes.ErrGateway)
		}
	} else if original.Target, err = single(r.Header, g.target); err != nil {
		return nil, err
	}
	if g.method != "" {
		if original.Method, err = single(r.Header, g.method); err != nil {
			return nil, err
		}
	}
	if g.host != "" {
		if original.Host, err = single(r.Header, g.host); err != nil {
			return nil, err
		}
	}
	if original.IP, err = s.client(x); err != nil {
		return nil, err
	}
	return s.sources.Append(x.pairs[:0], &original)
}

// client returns the address of the client. The gateway must be a trusted proxy, since it could otherwise be any client. If
// the connection has a PROXY header, it may have the address of the client already.
func (s *Server) client(x *exchange) (netip.Addr, error) {
	if !s.proxies.Trusts(x.conn.sender) {
		return netip.Addr{}, fmt.Errorf("%w: its address %s is not in trusted-proxies", attributes.ErrGateway, x.conn.sender)
	}
	lines := x.r.Header[s.forwarded]
	if len(lines) == 0 && s.proxies.Trusts(x.conn.peer) {
		return netip.Addr{}, fmt.Errorf("%w: the header %s is missing", attributes.ErrGateway, s.forwarded)
	}
	return s.proxies.Client(s.forwarded, x.conn.peer, lines), nil
}

// single returns the value of a header that the gateway sets exactly once.
func single(h http.Header, name string) (string, error) {
	values := h[name]
	if len(values) != 1 {
		return "", fmt.Errorf("%w: the request has the header %s %d times; the gateway must set it once", attributes.ErrGateway, name, len(values))
	}
	return values[0], nil
}

// refuseCheck answers a check request that is not valid.
func (s *Server) refuseCheck(x *exchange, g *gateway, err error) {
	if errors.Is(err, attributes.ErrGateway) {
		s.warn("a check request of a gateway was refused", "gateway", g.name, "address", x.conn.sender, "error", err)
		x.fail(http.StatusBadRequest, "gateway", err.Error())
		return
	}
	x.fail(g.invalid, "invalid_request", err.Error())
}

// answerCheck sends the response to a check request.
func (s *Server) answerCheck(x *exchange, g *gateway, r *decision.Result) {
	var e *decision.Error
	switch {
	case errors.As(r.Err, &e) && e.Unauthenticated():
		s.refuseUnauthenticated(x, true, "the user was deleted or disabled meanwhile")
	case errors.As(r.Err, &e) && e.Denied():
		// 401 as for a wrong password: gateways treat 403 as the refusal of a client.
		s.warn("a check request was refused", "gateway", g.name, "user", x.login.Name(), "error", r.Err)
		x.fail(http.StatusUnauthorized, "forbidden", messageOf(r.Err))
	case errors.As(r.Err, &e) && e.Unavailable():
		s.unavailable(x, e)
	case r.Err != nil && !s.hasDomain(x.reqs[0].Domain):
		s.warn("a check request was not decided", "gateway", g.name, "error", r.Err)
		s.unavailable(x, r.Err)
	case r.Err != nil:
		s.warn("a check request was refused", "gateway", g.name, "error", r.Err)
		x.fail(g.invalid, "invalid_request", messageOf(r.Err))
	case r.Limited:
		x.setDecision(s.format, r)
		x.out = headers.AppendRefusal(x.out[:0], g.refused, r)
		x.send(g.refused, problemType, x.out)
	default:
		x.setDecision(s.format, r)
		x.send(http.StatusOK, nil, nil)
	}
}

// hasDomain reports whether the active rules have a domain. A path with another domain is an error of the configuration, for
// which no client is refused: the gateway applies its policy for failures.
func (s *Server) hasDomain(name string) bool {
	if s.rules == nil {
		return false
	}
	set := s.rules.Active().Set
	return set != nil && set.Domain([]byte(name)) != nil
}

// unavailable sends the response to a request that cannot be decided.
func (s *Server) unavailable(x *exchange, err error) {
	x.markError()
	p := undecided(err)
	x.sendProblem(&p)
}

// undecided returns the problem of a request that is not decided because of an error. Errors other than error replies are
// internal: the command may have been run.
func undecided(err error) headers.Problem {
	var e *decision.Error
	if !errors.As(err, &e) || e.Uncertain() {
		return headers.Uncertain(messageOf(err))
	}
	return headers.Unavailable(e.Message)
}

// messageOf returns the message of an error for the client. Errors other than error replies are internal.
func messageOf(err error) string {
	var e *decision.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return "the request could not be decided; it may have been charged"
}

// grow returns a slice with n elements, which reuses the memory of results.
func grow(results []decision.Result, n int) []decision.Result {
	for cap(results) < n {
		results = append(results[:cap(results)], decision.Result{})
	}
	return results[:n]
}
