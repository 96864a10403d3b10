package openapi

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/edge"
	"github.com/throttledhq/throttled/edge/decision"
	"github.com/throttledhq/throttled/internal/testserve"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/ruleset"
	"github.com/throttledhq/throttled/server"
)

// patience is the maximum time of the shutdown of a server.
const patience = time.Minute

const rules = `version: 1
domain: shop
limits:
  login: {when: {path: /login}, per: [ip], allow: 2 per minute}
  queue: {when: {path: /queue}, algorithm: leaky, allow: 10 per minute}
  hidden: {when: {path: /hidden}, allow: none}
  report: {when: {path: /report}, charge: {status: 401}, allow: 1 per hour}
`

// start starts an HTTP server with a server that decides behind it, and returns its address.
func start(t *testing.T) string {
	t.Helper()
	opts, err := options.New(options.Default())
	if err != nil {
		t.Fatal(err)
	}
	live := ruleset.NewStore()
	log := ruleset.NewLocal(live, time.Now)
	if _, err := log.Propose(t.Context(), ruleset.Proposal{Name: "rules.yaml", Text: rules, Author: "test"}); err != nil {
		t.Fatal(err)
	}
	s := server.New(server.Config{Engine: buckets.New(buckets.Config{}), Options: opts, Rules: live, RulesLog: log})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	checker := decision.New(func() decision.Runner { return s.NewCaller() })
	t.Cleanup(checker.Close)
	h, err := edge.New(edge.Config{Checker: checker, Access: s, Options: opts, Rules: live, Version: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + testserve.Start(t, h, nil)
}

func newRequest(t *testing.T, method, url, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

func open(t *testing.T, base string) validator.Validator {
	t.Helper()
	response, err := http.DefaultClient.Do(newRequest(t, "GET", base+"/openapi.json", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	document, err := libopenapi.NewDocument(text)
	if err != nil {
		t.Fatal(err)
	}
	v, errs := validator.NewValidator(document)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return v
}

// TestDocument checks that the document is valid OpenAPI 3.1.
func TestDocument(t *testing.T) {
	if ok, problems := open(t, start(t)).ValidateDocument(); !ok {
		for _, p := range problems {
			t.Error(p)
		}
	}
}

// TestResponses checks requests and their responses. Requests that the server refuses with 400 must not match the document
// either.
func TestResponses(t *testing.T) {
	base := start(t)
	v := open(t, base)
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/v1/check", `{"domain":"shop","attributes":{"path":"/login","ip":"::1"}}`, 200},
		{"POST", "/v1/check", `{"domain":"shop","attributes":{"path":"/login","ip":"::1"},"cost":2,"peek":false}`, 429},
		{"POST", "/v1/check", `{"domain":"shop","attributes":{"path":"/queue"}}`, 200},
		{"POST", "/v1/check", `{"domain":"shop","attributes":{"path":"/queue"}}`, 200},
		{"POST", "/v1/check", `{"domain":"shop","attributes":{"path":"/hidden"}}`, 429},
		{"POST", "/v1/check", `{"domain":"shop","attributes":{"path":"/free"}}`, 200},
		{"POST", "/v1/check", `{"domain":"shop","cost":"1"}`, 400},
		{"POST", "/v1/check", `{"domain":"shop","csot":1}`, 400},
		{"POST", "/v1/check", `{"domain":7}`, 400},
		{"POST", "/v1/check", `{"domain":"shop","attributes":{"path":1}}`, 400},
		{"POST", "/v1/check/batch", `{"checks":[{"domain":"shop"},{"domain":"none"},{"domain":"shop","attributes":{"path":"/hidden"}}]}`, 200},
		{"POST", "/v1/check/batch", `{"checks":[]}`, 400},
		{"POST", "/v1/check/batch", `{}`, 400},
		{"POST", "/v1/report", `{"domain":"shop","attributes":{"path":"/report"},"outcome":"status=401"}`, 200},
		{"POST", "/v1/report", `{"domain":"shop"}`, 400},
		{"POST", "/v1/throttle", `{"key":"a","max_burst":0,"count_per_period":1,"period":"1m"}`, 200},
		{"POST", "/v1/throttle", `{"key":"a","max_burst":0,"count_per_period":1,"period":60}`, 429},
		{"POST", "/v1/throttle", `{"key":"a","max_burst":0,"count_per_period":0,"period":60}`, 400},
		{"POST", "/v1/throttle", `{"key":"a","max_burst":0,"count_per_period":1,"period":"1w"}`, 400},
		{"POST", "/v1/window", `{"key":"w","limit":5,"period":60,"algorithm":"log","quantity":2}`, 200},
		{"POST", "/v1/window", `{"key":"w","limit":5,"period":60,"algorithm":"lgo"}`, 400},
		{"GET", "/v1/rules", "", 200},
		{"GET", "/openapi.json", "", 200},
		{"GET", "/healthz", "", 200},
		{"GET", "/readyz", "", 200},
	} {
		if ok, problems := v.ValidateHttpRequest(newRequest(t, c.method, base+c.path, c.body)); ok != (c.status != 400) {
			t.Errorf("%s %s: the document accepts it: %v, status %d; %v", c.path, c.body, ok, c.status, problems)
		}
		request := newRequest(t, c.method, base+c.path, c.body)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != c.status {
			t.Errorf("%s %s: status %d, want %d", c.path, c.body, response.StatusCode, c.status)
		}
		if ok, problems := v.ValidateHttpResponse(request, response); !ok {
			for _, p := range problems {
				t.Errorf("%s %s: %v %v", c.path, c.body, p, p.SchemaValidationErrors)
			}
		}
		_ = response.Body.Close()
	}
}
