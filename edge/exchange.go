package edge

import (
	"net/http"
	"strconv"
	"time"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/edge/decision"
	"github.com/throttledhq/throttled/edge/headers"
	"github.com/throttledhq/throttled/tracing"
)

// exchange is one request and its response, with the memory that is reused for later ones.
type exchange struct {
	w        http.ResponseWriter
	r        *http.Request
	conn     *conn
	login    acl.Login // the user that has sent the request
	endpoint string    // for metrics
	status   int       // of the response; 0 until it is sent
	traced   bool      // requests are traced

	body    body
	pairs   []string
	reqs    []decision.Request
	results []decision.Result
	fields  []headers.Field
	in, out []byte

	header func(name string) []string // headerOf, which would otherwise be allocated for each request
}

// keepBytes is the maximum size of the buffers that an exchange keeps.
const keepBytes = 64 << 10

func newExchange(traced bool) *exchange {
	x := &exchange{traced: traced}
	x.header = func(name string) []string { return x.r.Header[name] }
	return x
}

// begin prepares an exchange for a request.
func (x *exchange) begin(w http.ResponseWriter, r *http.Request) {
	x.w, x.r, x.status, x.endpoint, x.login = w, r, 0, "none", acl.Login{}
	x.conn, _ = r.Context().Value(connKey{}).(*conn)
	if x.conn == nil { // a test without a connection
		x.conn = &conn{begun: true}
	}
	x.conn.begin()
}

// end removes the state of the request, and reports whether the exchange can be used again.
func (x *exchange) end() bool {
	x.w, x.r, x.conn = nil, nil, nil
	clear(x.pairs)
	clear(x.reqs)
	x.body.reset("")
	return cap(x.in) <= keepBytes && cap(x.out) <= keepBytes && cap(x.results) <= maxChecks
}

// Values of headers that do not change. net/http does not modify them.
var (
	noStore     = []string{"no-store"}
	noSniff     = []string{"nosniff"}
	closeValue  = []string{"close"}
	jsonType    = []string{"application/json"}
	problemType = []string{headers.ContentType}
	challenges  = []string{`Bearer realm="throttled"`, `Basic realm="throttled"`}

	decisionValues = map[string][]string{}
)

// decisionError is the value of X-RateLimit-Decision for a request that was not decided.
const decisionError = "error"

func init() {
	for _, word := range []string{decision.Allow, decision.Deny, decision.AllowedByFailure, decision.DeniedByFailure, decision.DeniedByShadow, decisionError} {
		decisionValues[word] = []string{word}
	}
}

// setDecision sets the headers of a decision, and adds the decision to the span of the request.
func (x *exchange) setDecision(f headers.Format, r *decision.Result) {
	h := x.w.Header()
	if x.traced {
		x.trace(r)
	}
	h["X-RateLimit-Decision"] = decisionValues[r.Word()]
	x.fields = f.Append(x.fields[:0], r, time.Now())
	values := make([]string, len(x.fields))
	for i := range x.fields {
		values[i] = x.fields[i].Value
		h[x.fields[i].Name] = values[i : i+1 : i+1]
	}
}

// trace adds a decision to the span of the request. Requests without rules have no domain.
func (x *exchange) trace(r *decision.Result) {
	domain := ""
	if len(x.reqs) > 0 {
		domain = x.reqs[0].Domain
	}
	tracing.Decided(x.r.Context(), domain, r.Word(), r.Name)
}

// send sends the response. An empty body has no Content-Type.
func (x *exchange) send(status int, contentType []string, body []byte) {
	h := x.w.Header()
	h["Cache-Control"] = noStore
	x.status = status
	if len(body) == 0 {
		if status != http.StatusOK { // net/http adds 200 itself
			x.w.WriteHeader(status)
		}
		return
	}
	h["Content-Type"], h["X-Content-Type-Options"] = contentType, noSniff
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	x.w.WriteHeader(status)
	_, _ = x.w.Write(body) // an error means that the client has disconnected
}

// sendProblem sends an error.
func (x *exchange) sendProblem(p *headers.Problem) {
	if p.Retry > 0 {
		x.w.Header()["Retry-After"] = []string{strconv.FormatInt(p.Retry, 10)}
	}
	x.out = p.Append(x.out[:0])
	x.send(p.Status, problemType, x.out)
}

// fail sends an error with a word for programs and a message.
func (x *exchange) fail(status int, word, message string) {
	x.sendProblem(&headers.Problem{Type: headers.TypeBlank, Title: http.StatusText(status), Status: status, Error: word, Message: message})
}

// close closes the connection after the response.
func (x *exchange) close() { x.w.Header()["Connection"] = closeValue }
