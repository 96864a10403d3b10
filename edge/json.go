package edge

import (
	"net/http"
	"strconv"

	"github.com/throttledhq/throttled/edge/decision"
)

// checkBody is the body of POST /v1/check.
type checkBody struct {
	Domain     string            `json:"domain"`
	Attributes map[string]string `json:"attributes"`
	Cost       *int64            `json:"cost"`
	Peek       bool              `json:"peek"`
}

// batchBody is the body of POST /v1/check/batch.
type batchBody struct {
	Checks []checkBody `json:"checks"`
}

// reportBody is the body of POST /v1/report.
type reportBody struct {
	Domain     string            `json:"domain"`
	Attributes map[string]string `json:"attributes"`
	Outcome    string            `json:"outcome"`
	Cost       *int64            `json:"cost"`
}

// throttleBody is the body of POST /v1/throttle: the parameters of CL.THROTTLE.
type throttleBody struct {
	Key      string `json:"key"`
	MaxBurst int64  `json:"max_burst"`
	Count    int64  `json:"count_per_period"`
	Period   int64  `json:"period"` // seconds
	Quantity *int64 `json:"quantity"`
}

// windowBody is the body of POST /v1/window: the parameters of CL.WINDOW.
type windowBody struct {
	Key       string `json:"key"`
	Limit     int64  `json:"limit"`
	Period    int64  `json:"period"`    // seconds
	Algorithm string `json:"algorithm"` // sliding, fixed, log or buckets
	Buckets   int64  `json:"buckets"`   // of the algorithm buckets
	Quantity  *int64 `json:"quantity"`
}

// maxChecks is the maximum number of checks in a batch: that of the requests which the server decides at once.
const maxChecks = 64

func (s *Server) postCheck(w http.ResponseWriter, r *http.Request) error {
	var body checkBody
	if err := decode(w, r, &body); err != nil {
		return err
	}
	c := s.calls.Get().(*call)
	defer s.release(c)
	var err error
	if c.reqs[0], c.pairs, err = s.request(&body, c.pairs[:0]); err != nil {
		return err
	}
	if err := decided(s.config.Checker.Check(c.reqs[:], c.results[:]), &c.results[0]); err != nil {
		return err
	}
	s.writeDecision(w, c)
	return nil
}

// request converts a check. The attributes are appended to pairs.
func (s *Server) request(b *checkBody, pairs []string) (decision.Request, []string, error) {
	if b.Domain == "" {
		return decision.Request{}, pairs, invalid("domain is missing; it is the name of a domain of the rules")
	}
	cost, err := s.quantity("cost", b.Cost)
	for name, value := range b.Attributes {
		pairs = append(pairs, name, value)
	}
	return decision.Request{Domain: b.Domain, Pairs: pairs, Cost: cost, Peek: b.Peek}, pairs, err
}

// quantity returns the units of a request, which are 1 by default. Refunds are privileged: they are accepted only if a
// password is required, which the client has then presented.
func (s *Server) quantity(name string, n *int64) (int64, error) {
	switch {
	case n == nil:
		return 1, nil
	case *n == 0:
		return 0, invalid("%s must not be 0", name)
	case *n < 0 && !s.config.Access.RequiresPassword():
		return 0, invalid("%s must be at least 1: refunds need a server with a password (requirepass)", name)
	}
	return *n, nil
}

func (s *Server) postBatch(w http.ResponseWriter, r *http.Request) error {
	var body batchBody
	if err := decode(w, r, &body); err != nil {
		return err
	}
	if n := len(body.Checks); n == 0 || n > maxChecks {
		return invalid("checks must have 1 to %d elements, not %d", maxChecks, n)
	}
	reqs, results := make([]decision.Request, len(body.Checks)), make([]decision.Result, len(body.Checks))
	for i := range body.Checks {
		var err error
		if reqs[i], _, err = s.request(&body.Checks[i], nil); err != nil {
			return invalid("checks[%d]: %v", i, err)
		}
	}
	if err := s.config.Checker.Check(reqs, results); err != nil {
		return decided(err, nil)
	}
	w.Header().Set("Cache-Control", "no-store")
	writeBody(w, http.StatusOK, jsonType, appendBatch(nil, results))
	return nil
}

func (s *Server) postReport(w http.ResponseWriter, r *http.Request) error {
	var body reportBody
	if err := decode(w, r, &body); err != nil {
		return err
	}
	c := s.calls.Get().(*call)
	defer s.release(c)
	check := checkBody{Domain: body.Domain, Attributes: body.Attributes, Cost: body.Cost}
	req, pairs, err := s.request(&check, c.pairs[:0])
	c.pairs = pairs
	switch {
	case err != nil:
		return err
	case body.Outcome == "":
		return invalid("outcome is missing; it has the form status=401")
	}
	report := decision.Report{Domain: req.Domain, Outcome: body.Outcome, Pairs: req.Pairs, Cost: req.Cost}
	if err := decided(s.config.Checker.Report(&report, &c.results[0]), &c.results[0]); err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	writeBody(w, http.StatusOK, jsonType, appendObject(c.body[:0], &c.results[0])) // a report is never refused
	return nil
}

func (s *Server) postThrottle(w http.ResponseWriter, r *http.Request) error {
	var b throttleBody
	if err := decode(w, r, &b); err != nil {
		return err
	}
	return s.limit(w, b.Quantity, "CL.THROTTLE", b.Key, text(b.MaxBurst), text(b.Count), text(b.Period))
}

func (s *Server) postWindow(w http.ResponseWriter, r *http.Request) error {
	var b windowBody
	if err := decode(w, r, &b); err != nil {
		return err
	}
	var mode []string
	switch b.Algorithm {
	case "":
	case "sliding", "fixed", "log":
		mode = []string{b.Algorithm}
	case "buckets":
		mode = []string{b.Algorithm, text(b.Buckets)}
	default:
		return invalid("algorithm must be sliding, fixed, log or buckets, not %s", strconv.Quote(b.Algorithm))
	}
	return s.limitMode(w, b.Quantity, mode, "CL.WINDOW", b.Key, text(b.Limit), text(b.Period))
}

func (s *Server) limit(w http.ResponseWriter, quantity *int64, args ...string) error {
	return s.limitMode(w, quantity, nil, args...)
}

// limitMode runs a limiter command and writes the decision. The quantity and the words of the mode follow args.
func (s *Server) limitMode(w http.ResponseWriter, quantity *int64, mode []string, args ...string) error {
	if args[1] == "" {
		return invalid("key is missing; it names the counter, such as user:17")
	}
	n, err := s.quantity("quantity", quantity)
	if err != nil {
		return err
	}
	c := s.calls.Get().(*call)
	defer s.release(c)
	args = append(append(args, text(n)), mode...)
	if err := decided(s.config.Checker.Limit([][]string{args}, c.results[:]), &c.results[0]); err != nil {
		return err
	}
	s.writeDecision(w, c)
	return nil
}

func text(n int64) string { return strconv.FormatInt(n, 10) }
