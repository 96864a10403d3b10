package edge

import (
	"net/http"
	"slices"
)

// endpoint is one operation of the API.
type endpoint struct {
	method, path string
	summary      string
	public       bool    // needs no password
	needs        string  // the command that a user must be permitted to run; empty if the endpoint runs commands, or needs none
	fields       []field // of the body; nil if there is none
	responses    []response
	run          func(s *Server, x *exchange)
}

// response is a response that an endpoint documents. Those that all endpoints have are in commonResponses.
type response struct {
	status int
	kind   string // of the body: the name of a schema, or a media type
	help   string
}

// endpointTable returns all endpoints except the check endpoints.
func endpointTable(metrics bool) []endpoint {
	decided := []response{
		{200, "Decision", "The request is admitted."},
		{429, "Refusal", "The request is refused."},
		{503, "Problem", "The request cannot be decided at present, for example because the cluster has no leader."},
	}
	table := []endpoint{
		{method: "POST", path: "/v1/check", summary: "Charges the limits of the rules that apply to a request", fields: checkFields, responses: decided, run: (*Server).postCheck},
		{method: "POST", path: "/v1/check/batch", summary: "Decides several requests", fields: batchFields, responses: []response{{200, "Batch", "The decisions, in the order of the checks."}}, run: (*Server).postBatch},
		{method: "POST", path: "/v1/report", summary: "Charges a request by its outcome", fields: reportFields, responses: []response{{200, "Decision", "The request is charged. allowed is false if not all units fit."}, decided[2]}, run: (*Server).postReport},
		{method: "POST", path: "/v1/throttle", summary: "Charges one limit with GCRA", fields: throttleFields, responses: decided, run: (*Server).postThrottle},
		{method: "POST", path: "/v1/window", summary: "Charges one limit on the requests in a window of time", fields: windowFields, responses: decided, run: (*Server).postWindow},
		{method: "GET", path: "/v1/rules", needs: "cl.rules|get", summary: "Returns the active rules", responses: []response{{200, "Rules", "The version and its text."}, {404, "Problem", "There are no rules."}}, run: (*Server).getRules},
		{method: "GET", path: "/openapi.json", summary: "Returns this document", responses: []response{{200, "application/json", "The OpenAPI document."}}, run: (*Server).getOpenAPI},
		{method: "GET", path: "/healthz", public: true, summary: "Reports that the process is running", responses: []response{{200, "Health", "The process is running."}}, run: (*Server).getHealth},
		{method: "GET", path: "/readyz", public: true, summary: "Reports whether requests can be decided", responses: []response{{200, "Health", "Requests can be decided."}, {503, "Problem", "Requests cannot be decided, or the server is about to stop."}}, run: (*Server).getReady},
	}
	if metrics {
		table = append(table, endpoint{method: "GET", path: "/metrics", needs: "info", summary: "Returns metrics for Prometheus", responses: []response{{200, "text/plain", "The metrics."}}, run: (*Server).getMetrics})
	}
	return table
}

// path is the endpoints with one path.
type path struct {
	name    string
	public  bool
	methods map[string]*endpoint
	allow   []string // value of the header Allow
}

// paths returns the endpoints by path.
func paths(table []endpoint) map[string]*path {
	m := map[string]*path{}
	for i := range table {
		e := &table[i]
		p := m[e.path]
		if p == nil {
			p = &path{name: e.path, public: e.public, methods: map[string]*endpoint{}}
			m[e.path] = p
		}
		p.methods[e.method] = e
		p.allow = []string{allowOf(p.methods)}
	}
	return m
}

// allowOf returns the methods in alphabetical order, with HEAD if there is GET.
func allowOf(methods map[string]*endpoint) (allow string) {
	var names []string
	for name := range methods {
		names = append(names, name)
		if name == http.MethodGet {
			names = append(names, http.MethodHead)
		}
	}
	slices.Sort(names)
	for i, name := range names {
		if i > 0 {
			allow += ", "
		}
		allow += name
	}
	return allow
}
