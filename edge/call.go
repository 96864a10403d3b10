package edge

import (
	"net/http"
	"time"

	"github.com/throttledhq/throttled/edge/attributes"
	"github.com/throttledhq/throttled/edge/decision"
	"github.com/throttledhq/throttled/edge/headers"
)

// call holds the memory for one request that is decided. It is reused.
type call struct {
	request  attributes.Request
	reqs     [1]decision.Request
	results  [1]decision.Result
	fields   []headers.Field
	body     []byte
	pairs    []string
	lookupIn http.Header // headers of the request that lookup searches
	lookup   func(name string) []string
}

func newCall() *call {
	c := &call{fields: make([]headers.Field, 0, 8)}
	c.lookup = func(name string) []string { return c.lookupIn[name] }
	return c
}

// release returns a call to the pool, without references to the request.
func (s *Server) release(c *call) {
	clear(c.pairs)
	c.pairs, c.request, c.lookupIn, c.reqs[0] = c.pairs[:0], attributes.Request{}, nil, decision.Request{}
	s.calls.Put(c)
}

// setHeaders adds the headers of a decision to a response.
func (s *Server) setHeaders(h http.Header, c *call) {
	c.fields = s.format.Append(c.fields[:0], &c.results[0], time.Now())
	values := make([]string, len(c.fields)+2) // net/http reads them after the handler has returned
	for i, f := range c.fields {
		values[i] = f.Value
		setCanonical(h, f.Name, values[i:i+1:i+1])
	}
	last := values[len(c.fields):]
	last[0], last[1] = verdict(&c.results[0]), "no-store"
	h["X-Ratelimit-Decision"], h["Cache-Control"] = last[:1:1], last[1:2:2]
}

// setCanonical sets a header whose name may not be in canonical form.
func setCanonical(h http.Header, name string, values []string) {
	h[http.CanonicalHeaderKey(name)] = values
}

// verdict returns the value of X-RateLimit-Decision.
func verdict(r *decision.Result) string {
	switch {
	case r.Flags.Has(decision.FailClosed) && r.Limited:
		return "fail-closed"
	case r.Limited:
		return "deny"
	case r.Flags.Has(decision.FailOpen):
		return "fail-open"
	case r.Flags.Has(decision.Shadow):
		return "shadow-deny"
	}
	return "allow"
}
