package edge

import (
	"errors"
	"net/http"
	"strings"

	"github.com/throttledhq/throttled/edge/attributes"
	"github.com/throttledhq/throttled/edge/decision"
	"github.com/throttledhq/throttled/edge/headers"
)

// gateway describes the requests of one gateway. The headers are those that the gateway, or its configuration in
// docs/gateways.md, overwrites.
type gateway struct {
	name string
	// Headers with the parts of the original request. They are empty if the gateway sends them as those of the check
	// request: its method, the path after the domain, and its host.
	method, target, host string
	refusal              int    // status of a refused request
	endpoint             string // name for Observe
}

// forwardedFor is the header to which each gateway appends the address of its peer.
const forwardedFor = "X-Forwarded-For"

// The gateways. The module auth_request of nginx answers with an error unless the status of a refusal is 401 or 403.
var gateways = []gateway{
	{"nginx", "X-Original-Method", "X-Original-Uri", "X-Forwarded-Host", http.StatusForbidden, "/check/nginx"},
	{"envoy", "", "", "", http.StatusTooManyRequests, "/check/envoy"},
	{"traefik", "X-Forwarded-Method", "X-Forwarded-Uri", "X-Forwarded-Host", http.StatusTooManyRequests, "/check/traefik"},
	{"caddy", "X-Forwarded-Method", "X-Forwarded-Uri", "X-Forwarded-Host", http.StatusTooManyRequests, "/check/caddy"},
	{"haproxy", "X-Forwarded-Method", "X-Forwarded-Uri", "X-Forwarded-Host", http.StatusTooManyRequests, "/check/haproxy"},
	{"apisix", "X-Forwarded-Method", "X-Forwarded-Uri", "X-Forwarded-Host", http.StatusTooManyRequests, "/check/apisix"},
}

// checkPath is the beginning of the paths of check endpoints.
const checkPath = "/check/"

// noDomain is the name in a path that stands for the option edge-domain.
const noDomain = "-"

// check answers a check request of a gateway. The path has the form /check/GATEWAY/DOMAIN, and that of Envoy is followed by
// the original path. It is read as the gateway has sent it, without any decoding.
func (s *Server) check(w http.ResponseWriter, r *http.Request) {
	c := s.calls.Get().(*call)
	defer s.release(c)
	g, err := s.parseCheck(c, r)
	if err == nil {
		err = decided(s.config.Checker.Check(c.reqs[:], c.results[:]), &c.results[0])
	}
	if err != nil {
		s.failCheck(w, g, err)
		return
	}
	s.setHeaders(w.Header(), c)
	if !c.results[0].Limited {
		w.Header()["Content-Length"] = zero
		w.WriteHeader(http.StatusOK)
		return
	}
	c.body = headers.AppendRefusal(c.body[:0], http.StatusTooManyRequests, &c.results[0])
	writeBody(w, g.refusal, headers.ContentType, c.body)
}

// zero is the value of Content-Length of an admitted request.
var zero = []string{"0"}

// failCheck answers a check request that was not decided. Errors in the data of a client of the gateway are refusals; all
// others are errors of the configuration or of the server, for which the gateway has a policy.
func (s *Server) failCheck(w http.ResponseWriter, g *gateway, err error) {
	w.Header()["X-Ratelimit-Decision"] = []string{"error"}
	var e *problemError
	switch {
	case g == nil:
	case errors.Is(err, attributes.ErrRequest):
		err = invalid("%v", err)
		if g.refusal == http.StatusForbidden {
			err = refuse(http.StatusForbidden, "invalid_request", "%v", err)
		}
	case errors.Is(err, attributes.ErrGateway):
		s.warn("gateway", "check request refused: the gateway is not configured as documented", "gateway", g.name, "error", err)
		err = refuse(http.StatusInternalServerError, "gateway_configuration", "%v", err)
	case errors.As(err, &e) && e.status == http.StatusBadRequest:
		s.warn("check", "check request failed", "gateway", g.name, "error", err)
		err = refuse(http.StatusInternalServerError, "configuration", "%v", err)
	}
	writeError(w, err)
}

// parseCheck sets the request of c. The gateway is nil if the path has none.
func (s *Server) parseCheck(c *call, r *http.Request) (*gateway, error) {
	name, rest, _ := strings.Cut(strings.TrimPrefix(r.RequestURI, checkPath), "/")
	g := gatewayOf(name)
	if g == nil {
		return nil, refuse(http.StatusNotFound, "not_found", "there is no such check endpoint; the paths are /check/GATEWAY/DOMAIN, with the gateways %s", gatewayNames())
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	domain, target := rest[:end], rest[end:]
	if domain == "" || domain == noDomain {
		domain = s.config.Options.EdgeDomain
	}
	if domain == "" {
		return g, refuse(http.StatusInternalServerError, "no_domain", "the path names no domain; write /check/%s/DOMAIN, or set the option edge-domain", g.name)
	}
	if err := s.original(&c.request, g, target, r); err != nil {
		return g, err
	}
	c.lookupIn, c.request.Header = r.Header, c.lookup
	var err error
	c.pairs, err = s.sources.Append(c.pairs[:0], &c.request)
	c.reqs[0] = decision.Request{Domain: domain, Pairs: c.pairs, Cost: 1}
	return g, err
}

// original sets o to the original request. target is the rest of the path.
func (s *Server) original(o *attributes.Request, g *gateway, target string, r *http.Request) (err error) {
	o.Method, o.Target, o.Host = r.Method, target, r.Host
	if g.method != "" {
		if o.Method, err = single(r.Header, g.method); err != nil {
			return err
		}
		if o.Target, err = single(r.Header, g.target); err != nil {
			return err
		}
		if o.Host, err = single(r.Header, g.host); err != nil {
			return err
		}
	}
	lines := r.Header[forwardedFor]
	if len(lines) == 0 {
		return missing(forwardedFor)
	}
	o.IP = s.proxies.ClientOfXForwardedFor(peerOf(r).ip, lines)
	return nil
}

// single returns the value of a header that the gateway sets exactly once.
func single(h http.Header, name string) (string, error) {
	switch values := h[name]; len(values) {
	case 1:
		return values[0], nil
	case 0:
		return "", missing(name)
	}
	return "", &gatewayError{"the header " + name + " is repeated; the gateway must overwrite it"}
}

func missing(name string) error {
	return &gatewayError{"the header " + name + " is missing; the gateway must set it"}
}

// gatewayError is an error of the configuration of a gateway.
type gatewayError struct{ text string }

func (e *gatewayError) Error() string { return e.text }
func (e *gatewayError) Unwrap() error { return attributes.ErrGateway }

func gatewayOf(name string) *gateway {
	for i := range gateways {
		if gateways[i].name == name {
			return &gateways[i]
		}
	}
	return nil
}

func gatewayNames() string {
	names := make([]string, len(gateways))
	for i := range gateways {
		names[i] = gateways[i].name
	}
	return strings.Join(names, ", ")
}
