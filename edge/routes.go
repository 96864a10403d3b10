package edge

import (
	"net/http"
	"runtime/debug"
	"strings"
	"time"
)

// endpoint is one endpoint other than the check endpoints.
type endpoint struct {
	method string
	path   string
	open   bool // needs no password, and is not protected
	handle func(s *Server, w http.ResponseWriter, r *http.Request) error
}

// endpoints lists the endpoints in the order of the OpenAPI document.
var endpoints = []endpoint{
	{http.MethodPost, "/v1/check", false, (*Server).postCheck},
	{http.MethodPost, "/v1/check/batch", false, (*Server).postBatch},
	{http.MethodPost, "/v1/report", false, (*Server).postReport},
	{http.MethodPost, "/v1/throttle", false, (*Server).postThrottle},
	{http.MethodPost, "/v1/window", false, (*Server).postWindow},
	{http.MethodGet, "/v1/rules", false, (*Server).getRules},
	{http.MethodGet, "/metrics", false, (*Server).getMetrics},
	{http.MethodGet, "/healthz", true, (*Server).getHealth},
	{http.MethodGet, "/readyz", true, (*Server).getReady},
}

// Names of endpoints for Observe that are not paths.
const (
	checkEndpoint = "/check/"
	otherEndpoint = "other"
)

// serve answers a request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if s.config.Observe != nil {
		o := &observed{ResponseWriter: w, start: time.Now(), status: http.StatusOK}
		defer func() { s.config.Observe(endpointName(r), o.status, time.Since(o.start)) }()
		w = o
	}
	defer s.recoverPanic(w, r)
	if s.draining.Load() {
		w.Header()["Connection"] = []string{"close"}
	}
	if strings.HasPrefix(r.RequestURI, checkPath) {
		s.serveCheck(w, r)
		return
	}
	if err := s.route(w, r); err != nil {
		writeError(w, err)
	}
}

func (s *Server) serveCheck(w http.ResponseWriter, r *http.Request) {
	if err := s.authorize(r, true); err != nil {
		w.Header()["X-Ratelimit-Decision"] = []string{"error"}
		writeError(w, err)
		return
	}
	s.check(w, r)
}

// route finds and runs the endpoint of a request.
func (s *Server) route(w http.ResponseWriter, r *http.Request) error {
	e := byPath[r.URL.Path]
	if e == nil {
		return refuse(http.StatusNotFound, "not_found", "there is no such endpoint; /openapi.json describes all endpoints")
	}
	if r.Method != e.method && (e.method != http.MethodGet || r.Method != http.MethodHead) {
		p := refuse(http.StatusMethodNotAllowed, "method_not_allowed", "the method of %s is %s", e.path, e.method).(*problemError)
		p.header = map[string]string{"Allow": e.method}
		return p
	}
	if !e.open {
		if err := s.authorize(r, false); err != nil {
			return err
		}
		if err := s.checkOrigin(r); err != nil {
			return err
		}
	}
	return e.handle(s, w, r)
}

// observed records the status of a response.
type observed struct {
	http.ResponseWriter
	start  time.Time
	status int
}

// WriteHeader records the status.
func (o *observed) WriteHeader(status int) {
	o.status = status
	o.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (o *observed) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// endpointName returns the name of the endpoint for Observe.
func endpointName(r *http.Request) string {
	if strings.HasPrefix(r.RequestURI, checkPath) {
		name, _, _ := strings.Cut(r.RequestURI[len(checkPath):], "/")
		if g := gatewayOf(name); g != nil {
			return g.endpoint
		}
		return otherEndpoint
	}
	if e := byPath[r.URL.Path]; e != nil {
		return e.path
	}
	return otherEndpoint
}

// byPath has the endpoints by path.
var byPath = func() map[string]*endpoint {
	m := map[string]*endpoint{}
	for i := range endpoints {
		m[endpoints[i].path] = &endpoints[i]
	}
	return m
}()

// recoverPanic answers a request whose handler has panicked. It must be deferred.
func (s *Server) recoverPanic(w http.ResponseWriter, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler {
		panic(p)
	}
	s.config.Log.Error("an HTTP request panicked", "panic", p, "method", r.Method, "stack", string(debug.Stack()))
	w.Header()["Connection"] = []string{"close"}
	writeError(w, errInternal)
}
