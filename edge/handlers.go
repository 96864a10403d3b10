package edge

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/throttledhq/throttled/edge/decision"
	"github.com/throttledhq/throttled/edge/headers"
	"github.com/throttledhq/throttled/ruleset"
)

func (s *Server) postCheck(x *exchange) {
	b := &x.body
	if !s.mayCharge(x, "cost", b.cost, 1) || !x.hasDomain(b.domain) {
		return
	}
	x.reqs = append(x.reqs[:0], b.request(b.attributes))
	x.results = grow(x.results, 1)
	if err := s.checker.Check(x.login, x.reqs, x.results); err != nil {
		s.unavailable(x, err)
		return
	}
	s.answer(x, &x.results[0], appendMembers)
}

func (s *Server) postBatch(x *exchange) {
	b := &x.body
	for i := range b.checks {
		if !s.mayCharge(x, fmt.Sprintf("checks[%d].cost", i), b.checks[i].Cost, 1) || !x.hasDomain(b.checks[i].Domain) {
			return
		}
	}
	x.results = grow(x.results, len(b.checks))
	if err := s.checker.Check(x.login, b.checks, x.results); err != nil {
		s.unavailable(x, err)
		return
	}
	x.out = appendBatch(x.out[:0], x.results)
	x.send(http.StatusOK, jsonType, x.out)
}

func (s *Server) postReport(x *exchange) {
	b := &x.body
	if !x.hasDomain(b.domain) {
		return
	}
	report := decision.Report{Domain: b.domain, Outcome: b.outcome, Pairs: b.attributes, Cost: b.cost}
	x.results = grow(x.results, 1)
	r := &x.results[0]
	if err := s.checker.Report(x.login, &report, r); err != nil {
		s.unavailable(x, err)
		return
	}
	if s.answered(x, r.Err) {
		return
	}
	x.setDecision(s.format, r)
	x.out = append(appendMembers(append(x.out[:0], '{'), r), '}')
	x.send(http.StatusOK, jsonType, x.out)
}

func (s *Server) postThrottle(x *exchange) {
	b := &x.body
	s.limit(x, []string{"CL.THROTTLE", b.key, itoa(b.first), itoa(b.count), b.period, itoa(b.quantity)})
}

func (s *Server) postWindow(x *exchange) {
	b := &x.body
	args := []string{"CL.WINDOW", b.key, itoa(b.first), b.period, itoa(b.quantity)}
	if b.algorithm != "" {
		args = append(args, b.algorithm)
	}
	s.limit(x, args)
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// limit runs a command whose reply is the five integers of a limit.
func (s *Server) limit(x *exchange, args []string) {
	if !s.mayCharge(x, "quantity", x.body.quantity, 0) {
		return
	}
	x.results = grow(x.results, 1)
	if err := s.checker.Limit(x.login, [][]string{args}, x.results); err != nil {
		s.unavailable(x, err)
		return
	}
	s.answer(x, &x.results[0], appendFive)
}

// mayCharge refuses a number of units below least. Refunds are for clients that have sent a password.
func (s *Server) mayCharge(x *exchange, field string, units, least int64) bool {
	switch {
	case units >= least:
		return true
	case units == 0:
		x.fail(http.StatusBadRequest, "invalid_request", (&fieldError{field, "must not be 0; use peek to read the state without a charge"}).Error())
		return false
	case !s.access.RequiresPassword():
		x.fail(http.StatusForbidden, "refund", (&fieldError{field, "must not be negative: refunds require a password (requirepass)"}).Error())
		return false
	}
	return true
}

// hasDomain refuses a request without a domain.
func (x *exchange) hasDomain(domain string) bool {
	if domain == "" {
		x.fail(http.StatusBadRequest, "invalid_request", (&fieldError{"domain", "is missing, and the option edge-domain is not set"}).Error())
	}
	return domain != ""
}

// answered sends the error of a command, if there is one.
func (s *Server) answered(x *exchange, err error) bool {
	var e *decision.Error
	switch {
	case err == nil:
		return false
	case errors.As(err, &e) && e.Denied():
		x.markError()
		x.fail(http.StatusForbidden, "forbidden", messageOf(err))
	case errors.As(err, &e) && e.Unauthenticated():
		x.markError()
		s.refuseUnauthenticated(x, false, "the user was deleted or disabled meanwhile")
	case errors.As(err, &e) && e.Unavailable():
		s.unavailable(x, e)
	default:
		x.markError()
		x.fail(http.StatusBadRequest, "invalid_request", messageOf(err))
	}
	return true
}

// answer sends a decision. The members are those in addition to the members of a problem.
func (s *Server) answer(x *exchange, r *decision.Result, members func([]byte, *decision.Result) []byte) {
	if s.answered(x, r.Err) {
		return
	}
	x.setDecision(s.format, r)
	out := append(x.out[:0], '{')
	status, kind := http.StatusOK, jsonType
	if r.Limited {
		status, kind = http.StatusTooManyRequests, problemType
		out = append(headers.AppendRefusalMembers(out, status, r), ',')
	}
	x.out = append(members(out, r), '}')
	x.send(status, kind, x.out)
}

func (s *Server) getRules(x *exchange) {
	version, text, err := s.activeRules()
	if errors.Is(err, ruleset.ErrNoRules) {
		err = ruleset.NoRules(s.opts.Get().Upstream)
	}
	if err != nil {
		x.fail(http.StatusNotFound, "no_rules", err.Error())
		return
	}
	x.out = appendRules(x.out[:0], &version, text)
	x.send(http.StatusOK, jsonType, x.out)
}

func (s *Server) activeRules() (ruleset.Version, string, error) {
	if s.rules == nil {
		return ruleset.Version{}, "", ruleset.ErrNoRules
	}
	return s.rules.Text(s.rules.Active().Version)
}

func (s *Server) getOpenAPI(x *exchange) { x.send(http.StatusOK, jsonType, s.openAPI) }

func (s *Server) getHealth(x *exchange) { x.send(http.StatusOK, jsonType, []byte(`{"status":"ok"}`)) }

func (s *Server) getReady(x *exchange) {
	err := s.access.Ready()
	if s.draining.Load() {
		err = errDraining
	}
	if err != nil && !s.accepts(x) {
		err = errNotReady
	}
	if err != nil {
		p := headers.Unavailable(err.Error())
		x.sendProblem(&p)
		return
	}
	x.send(http.StatusOK, jsonType, []byte(`{"status":"ready"}`))
}

var (
	errDraining = errors.New("the server is about to stop")
	// errNotReady is shown to clients that protected mode refuses. It contains no details.
	errNotReady = errors.New("the server is not ready")
)

func (s *Server) getMetrics(x *exchange) {
	x.status = http.StatusOK
	s.metrics.ServeHTTP(x.w, x.r)
}
