package edge

import (
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/throttledhq/throttled/tracing"
)

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begun := time.Now()
	s.lastRequest.Store(int64(begun.Sub(s.created)))
	x := s.exchanges.Get().(*exchange)
	x.begin(w, r)
	defer s.finish(x, begun)
	if s.draining.Load() || len(r.TransferEncoding) > 0 {
		// A chunked request may have had a Content-Length as well, which net/http removes. If a gateway had used it, the
		// bytes that follow would be another request.
		x.close()
	}
	s.route(x)
}

// finish records the exchange, and answers it if it has panicked.
func (s *Server) finish(x *exchange, begun time.Time) {
	p := recover()
	if p != nil {
		s.log.Error("an HTTP request panicked", "panic", p, "endpoint", x.endpoint, "stack", string(debug.Stack()))
		if x.status != 0 {
			panic(http.ErrAbortHandler) // part of a response may have been sent
		}
		x.close()
		x.markError()
		x.fail(http.StatusInternalServerError, "internal", "the request has failed because of a bug; see the log of the server")
	}
	if x.traced {
		tracing.Route(x.r.Context(), x.endpoint)
	}
	s.observer.ObserveRequest(x.endpoint, x.status, time.Since(begun))
	if x.end() && p == nil {
		s.exchanges.Put(x)
	}
}

// checkPrefix begins the paths of the check endpoints.
const checkPrefix = "/check/"

// route finds the endpoint of a request. The target is compared as it was sent: no path has two spellings.
func (s *Server) route(x *exchange) {
	if x.r.ProtoMajor != 1 {
		x.close()
		x.fail(http.StatusHTTPVersionNotSupported, "http_version", "use HTTP/1.1: this port has no HTTP/2")
		return
	}
	if rest, ok := strings.CutPrefix(x.r.RequestURI, checkPrefix); ok {
		if s.accept(x) {
			s.routeCheck(x, rest)
		}
		return
	}
	target, _, _ := strings.Cut(x.r.RequestURI, "?")
	p := s.endpoints[target]
	if s.admit(x, p) {
		s.routePath(x, p)
	}
}

// admit reports whether a client may send requests to a path, and refuses other clients. Public paths are also open to
// clients that protected mode refuses: the probes of an orchestrator come from the address of another host.
func (s *Server) admit(x *exchange, p *path) bool {
	public := p != nil && p.public
	switch {
	case !public && !s.accept(x), !s.fromHere(x):
		return false
	case !public && !s.authenticate(x, passwordOf(x.r)):
		return false
	case !public || !s.access.RequiresPassword() && s.accepts(x):
		x.conn.accepted()
		// Otherwise the connection stays a newcomer: clients without access could use up all places by health checks.
	}
	return true
}

// routePath calls the handler of an endpoint.
func (s *Server) routePath(x *exchange, p *path) {
	if p == nil {
		x.fail(http.StatusNotFound, "not_found", "there is no such endpoint; GET /openapi.json lists them")
		return
	}
	x.endpoint = p.name
	method := x.r.Method
	if method == http.MethodHead {
		method = http.MethodGet // net/http sends no body
	}
	e := p.methods[method]
	if e == nil {
		x.w.Header()["Allow"] = p.allow
		x.fail(http.StatusMethodNotAllowed, "method_not_allowed", "use "+p.allow[0])
		return
	}
	if !s.permits(x, e) {
		return
	}
	if e.fields != nil && !s.decode(x, e.fields) {
		return
	}
	e.run(s, x)
}
