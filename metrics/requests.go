package metrics

import (
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/throttledhq/throttled/internal/histogram"
)

// Requests counts requests by endpoint and code, and their durations by endpoint. Its methods may be called concurrently,
// and do not allocate for endpoints that are already known.
//
// The endpoint is a name that the server has chosen, such as the pattern of a route, never a path of a client. As a
// safeguard, endpoints beyond the first maxEndpoints are counted as "other", and so are codes out of range.
type Requests struct {
	form    requestForm
	mu      sync.Mutex // held while an endpoint is added
	known   atomic.Pointer[map[string]*endpoint]
	total   *prometheus.Desc
	seconds *prometheus.Desc
}

// maxEndpoints is the maximum number of endpoints, without "other".
const maxEndpoints = 64

// other is the value of the label for further endpoints and codes.
const other = "other"

// maxCode is the number of codes of an endpoint: HTTP status codes are less than 600, gRPC codes less than 17.
const maxCode = 600

// endpoint counts the requests of one endpoint.
type endpoint struct {
	codes [maxCode + 1]atomic.Int64 // the last one has the codes out of range
	times histogram.Histogram
}

// requestForm has the names of the metrics of one kind of requests.
type requestForm struct {
	total, totalHelp     string
	seconds, secondsHelp string
	label                string
	first, last          int // valid codes
	codeName             func(code int) string
}

var httpForm = requestForm{
	total: "throttled_http_requests_total", totalHelp: "Requests to the HTTP server by endpoint and status code.",
	seconds: "throttled_http_request_seconds", secondsHelp: "Time of requests to the HTTP server.",
	label: "endpoint", first: 100, last: 599, codeName: strconv.Itoa,
}

var grpcForm = requestForm{
	total: "throttled_grpc_requests_total", totalHelp: "Requests to the gRPC server by method, such as Authorization/Check, and code of the status. The method of a refused request is none if the server does not have it.",
	seconds: "throttled_grpc_request_seconds", secondsHelp: "Time of requests to the gRPC server.",
	label: "method", first: 0, last: len(grpcNames) - 1, codeName: func(code int) string { return grpcNames[code] },
}

// grpcNames are the names of the codes in package google.golang.org/grpc/codes.
var grpcNames = [...]string{
	"OK", "Canceled", "Unknown", "InvalidArgument", "DeadlineExceeded", "NotFound", "AlreadyExists", "PermissionDenied", "ResourceExhausted",
	"FailedPrecondition", "Aborted", "OutOfRange", "Unimplemented", "Internal", "Unavailable", "DataLoss", "Unauthenticated",
}

// nameOf returns the value of the label for a code.
func (f *requestForm) nameOf(code int) string {
	if code < f.first || code > f.last {
		return other
	}
	return f.codeName(code)
}

func newRequests(f requestForm) *Requests {
	r := &Requests{
		form:    f,
		total:   prometheus.NewDesc(f.total, f.totalHelp, []string{f.label, "code"}, nil),
		seconds: prometheus.NewDesc(f.seconds, f.secondsHelp, []string{f.label}, nil),
	}
	r.known.Store(&map[string]*endpoint{})
	return r
}

// ObserveRequest counts a request: its endpoint, its HTTP status code or gRPC code, and the time that it took.
func (r *Requests) ObserveRequest(name string, code int, took time.Duration) {
	e := (*r.known.Load())[name]
	if e == nil {
		e = r.add(name)
	}
	if code < r.form.first || code > r.form.last {
		code = maxCode
	}
	e.codes[code].Add(1)
	e.times.AddDurations(took, 1)
}

// add adds an endpoint, or returns that of further endpoints.
func (r *Requests) add(name string) *endpoint {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := *r.known.Load()
	if known[name] == nil && len(known) >= maxEndpoints {
		name = other
	}
	if e := known[name]; e != nil {
		return e
	}
	changed := maps.Clone(known)
	changed[name] = &endpoint{}
	r.known.Store(&changed)
	return changed[name]
}

// Describe sends the descriptions of both metrics.
func (r *Requests) Describe(out chan<- *prometheus.Desc) {
	out <- r.total
	out <- r.seconds
}

// Collect sends the metrics.
func (r *Requests) Collect(out chan<- prometheus.Metric) {
	total, seconds := values{r.total, counter, out}, values{r.seconds, distribution, out}
	for name, e := range *r.known.Load() {
		for code := range e.codes {
			if n := e.codes[code].Load(); n > 0 {
				total.count(n, name, r.form.nameOf(code))
			}
		}
		times := e.times.Load()
		seconds.durations(&times, name)
	}
}
