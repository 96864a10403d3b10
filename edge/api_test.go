package edge

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/edge/decision"
	"github.com/throttledhq/throttled/options"
)

// TestEndpoints sends requests in order to one server.
func TestEndpoints(t *testing.T) {
	l := start(t, nil)
	for _, c := range []struct {
		name, target, body string
		status             int
		want               string // body
	}{
		{"check", "/v1/check", `{"domain":"shop","attributes":{"path":"/login","ip":"::1"}}`, 200,
			`{"allowed":true,"limit":2,"remaining":1,"reset_after_ms":30000,"reset_after_seconds":30,"name":"login","flags":[],"limits":[{"name":"login","window":"1m","allowed":true,"limit":2,"remaining":1,"reset_after_ms":30000,"flags":[]}],"version":1}`},
		{"peek", "/v1/check", `{"attributes":{"path":"/login","ip":"::1"},"peek":true}`, 200,
			`{"allowed":true,"limit":2,"remaining":1,"reset_after_ms":30000,"reset_after_seconds":30,"name":"login","flags":[],"limits":[{"name":"login","window":"1m","allowed":true,"limit":2,"remaining":1,"reset_after_ms":30000,"flags":[]}],"version":1}`},
		{"refused", "/v1/check", `{"attributes":{"path":"/login","ip":"::1"},"cost":2}`, 429,
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"error":"rate_limited","message":"the limit login is exceeded; retry after 30 seconds","retry_after_seconds":30,"violated-policies":["login"],` +
				`"allowed":false,"limit":2,"remaining":1,"retry_after_ms":30000,"reset_after_ms":30000,"reset_after_seconds":30,"name":"login","flags":[],"limits":[{"name":"login","window":"1m","allowed":false,"limit":2,"remaining":1,"retry_after_ms":30000,"reset_after_ms":30000,"flags":[]}],"version":1}`},
		{"unmatched", "/v1/check", `{"attributes":{"path":"/free"}}`, 200, `{"allowed":true,"reset_after_ms":0,"reset_after_seconds":0,"name":"","flags":["unmatched"],"limits":[],"version":1}`},
		{"no fields", "/v1/check", ` {} `, 200, `{"allowed":true,"reset_after_ms":0,"reset_after_seconds":0,"name":"","flags":["unmatched"],"limits":[],"version":1}`},
		{"report", "/v1/report", `{"attributes":{"path":"/report","ip":"::1"},"outcome":"status=401"}`, 200,
			`{"allowed":true,"limit":1,"remaining":0,"reset_after_ms":3600000,"reset_after_seconds":3600,"name":"outcome","flags":["report"],"limits":[{"name":"outcome","window":"1h","allowed":true,"limit":1,"remaining":0,"reset_after_ms":3600000,"flags":["report"]}],"version":1}`},
		{"throttle", "/v1/throttle", `{"key":"a","max_burst":1,"count_per_period":1,"period":60,"quantity":2}`, 200, `{"allowed":true,"limit":2,"remaining":0,"reset_after_ms":120000,"reset_after_seconds":120}`},
		{"throttle refused", "/v1/throttle", `{"key":"a","max_burst":1,"count_per_period":1,"period":"1m"}`, 429,
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"error":"rate_limited","message":"the limit default is exceeded; retry after 60 seconds","retry_after_seconds":60,"violated-policies":["default"],` +
				`"allowed":false,"limit":2,"remaining":0,"retry_after_ms":60000,"reset_after_ms":120000,"reset_after_seconds":120}`},
		{"window", "/v1/window", `{"key":"w","limit":5,"period":"250ms"}`, 200, `{"allowed":true,"limit":5,"remaining":4,"reset_after_ms":500,"reset_after_seconds":1}`},
		{"window fixed", "/v1/window", `{"key":"f","limit":5,"period":"1h","algorithm":"fixed","quantity":0}`, 200, `{"allowed":true,"limit":5,"remaining":5,"reset_after_ms":0,"reset_after_seconds":0}`},
		{"batch", "/v1/check/batch", `{"checks":[{"attributes":{"path":"/api/search","ip":"::1"}},{"domain":"other"},{"domain":"other","cost":5},{"domain":"nowhere"},{"attributes":{"path":"/hidden"}},{"attributes":{"path":"/free"}}]}`, 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := l.post(c.target, c.body)
			if r.StatusCode != c.status || c.want != "" && r.text != c.want {
				t.Errorf("status %d,\n%s, want %d,\n%s", r.StatusCode, r.text, c.status, c.want)
			}
			want := "application/json"
			if c.status != 200 {
				want = "application/problem+json"
			}
			if got := r.Header.Get("Content-Type"); got != want || r.Header.Get("X-Content-Type-Options") != "nosniff" || r.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("headers %v", r.Header)
			}
			if c.name == "batch" {
				checkBatch(t, r)
			}
		})
	}
}

func checkBatch(t *testing.T, r *reply) {
	t.Helper()
	var statuses, errs []any
	for _, e := range r.object(t)["results"].([]any) {
		m := e.(map[string]any)
		statuses, errs = append(statuses, m["status"]), append(errs, m["error"])
	}
	if want := []any{200., 200., 429., 400., 429., 200.}; !reflect.DeepEqual(statuses, want) {
		t.Errorf("statuses %v, want %v", statuses, want)
	}
	if want := []any{nil, nil, "rate_limited", "invalid_request", "rate_limited", nil}; !reflect.DeepEqual(errs, want) {
		t.Errorf("errors %v, want %v", errs, want)
	}
}

func TestGet(t *testing.T) {
	l := start(t, nil)
	for target, want := range map[string]string{"/healthz": `{"status":"ok"}`, "/readyz": `{"status":"ready"}`, "/metrics": "# metrics\n", "/healthz?full": `{"status":"ok"}`} {
		if r := l.do("GET", target, ""); r.StatusCode != 200 || r.text != want {
			t.Errorf("GET %s: %d %q, want %q", target, r.StatusCode, r.text, want)
		}
		if r := l.do("HEAD", target, ""); r.StatusCode != 200 || r.text != "" {
			t.Errorf("HEAD %s: %d %q, want no body", target, r.StatusCode, r.text)
		}
	}
	rules := l.do("GET", "/v1/rules", "").object(t)
	if rules["version"] != 1.0 || rules["text"] != testRules || rules["author"] != "test" {
		t.Errorf("rules %v", rules)
	}
	for upstream, want := range map[string]string{"": "start the server with --rules FILE", "up:1": "set them on the upstream, up:1,"} {
		l = start(t, func(o *options.Options) { o.Upstream = strings.Fields(upstream) }, func(s *Server) { s.rules = nil })
		r := l.do("GET", "/v1/rules", "")
		if message := fmt.Sprint(r.object(t)["message"]); r.StatusCode != 404 || r.object(t)["error"] != "no_rules" || !strings.Contains(message, want) {
			t.Errorf("without rules, upstream %q: %d %s, want 404 and %q", upstream, r.StatusCode, r.text, want)
		}
	}
}

// All errors are problems with a word and a message.
func TestErrors(t *testing.T) {
	l := start(t, nil)
	for _, c := range []struct {
		method, target string
		status         int
		word, message  string
	}{
		{"GET", "/", 404, "not_found", "no such endpoint"},
		{"GET", "/v1/check/", 404, "not_found", ""},
		{"GET", "//v1/rules", 404, "not_found", ""},
		{"GET", "/v1/%72ules", 404, "not_found", ""},
		{"GET", "/v1/../v1/rules", 404, "not_found", ""},
		{"GET", "/check/", 404, "not_found", "unknown gateway"},
		{"GET", "/CHECK/nginx", 404, "not_found", ""},
		{"GET", "/v1/check", 405, "method_not_allowed", "use POST"},
		{"DELETE", "/v1/rules", 405, "method_not_allowed", "use GET, HEAD"},
		{"OPTIONS", "/v1/check", 405, "method_not_allowed", "use POST"},
		{"PATCH", "/healthz", 405, "method_not_allowed", "use GET, HEAD"},
	} {
		r := l.do(c.method, c.target, "")
		p := r.object(t)
		if r.StatusCode != c.status || p["error"] != c.word || p["status"] != float64(c.status) || p["title"] != http.StatusText(c.status) || !strings.Contains(p["message"].(string), c.message) {
			t.Errorf("%s %s: %d %v, want %d %q", c.method, c.target, r.StatusCode, p, c.status, c.word)
		}
		if allow := r.Header.Get("Allow"); (c.status == 405) != (allow != "") || allow != "" && "use "+allow != c.message {
			t.Errorf("%s %s: Allow %q", c.method, c.target, allow)
		}
	}
}

// Errors of bodies name the field.
func TestBodies(t *testing.T) {
	l := start(t, nil)
	many := func(n int, format string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = strings.ReplaceAll(format, "N", fmt.Sprint(i))
		}
		return strings.Join(parts, ",")
	}
	for _, c := range []struct {
		target, body string
		status       int
		message      string
	}{
		{"/v1/check", ``, 400, "not valid JSON: unexpected end"},
		{"/v1/check", `{`, 400, "not valid JSON"},
		{"/v1/check", `null`, 400, "must be an object"},
		{"/v1/check", `[]`, 400, "must be an object"},
		{"/v1/check", `"x"`, 400, "must be an object"},
		{"/v1/check", `{} {}`, 400, "not valid JSON: invalid character '{' after top-level value"},
		{"/v1/check", `{},`, 400, "not valid JSON"},
		{"/v1/check", `{"cost":1,}`, 400, "not valid JSON"},
		{"/v1/check", "{\"domain\":\"a\xff\"}", 400, "not valid UTF-8"},
		{"/v1/check", `{"csot":1}`, 400, `field "csot" is unknown; did you mean "cost"?`},
		{"/v1/check", `{"zzzzzzzzz":1}`, 400, `the fields are domain, attributes, cost, peek`},
		{"/v1/check", `{"Cost":1}`, 400, `field "Cost" is unknown; did you mean "cost"?`},
		{"/v1/check", `{"cost":1,"cost":2}`, 400, `field "cost" is given twice`},
		{"/v1/check", `{"cost":1,"c\u006fst":2}`, 400, `field "cost" is given twice`},
		{"/v1/check", `{"cost":1.5}`, 400, `field "cost" must be an integer`},
		{"/v1/check", `{"cost":1e3}`, 400, `field "cost" must be an integer`},
		{"/v1/check", `{"cost":"1"}`, 400, `field "cost" must be an integer`},
		{"/v1/check", `{"cost":null}`, 400, `field "cost" must be an integer`},
		{"/v1/check", `{"cost":9223372036854775808}`, 400, `field "cost" is out of range`},
		{"/v1/check", `{"cost":0}`, 400, `field "cost" must not be 0; use peek`},
		{"/v1/check", `{"cost":-1}`, 403, `refunds require a password`},
		{"/v1/check", `{"peek":1}`, 400, `field "peek" must be true or false`},
		{"/v1/check", `{"peek":null}`, 400, `field "peek" must be true or false`},
		{"/v1/check", `{"domain":""}`, 400, `field "domain" must not be empty`},
		{"/v1/check", `{"domain":7}`, 400, `field "domain" must be a string`},
		{"/v1/check", `{"domain":"shp"}`, 400, `unknown domain`},
		{"/v1/check", `{"attributes":[]}`, 400, `field "attributes" must be an object`},
		{"/v1/check", `{"attributes":{"a":1}}`, 400, `field "attributes.a" must be a string`},
		{"/v1/check", `{"attributes":{"a":"1","b":"2","a":"3"}}`, 400, `field "attributes.a" is given twice`},
		{"/v1/check", `{"attributes":{` + many(65, `"N":""`) + `}}`, 400, `field "attributes" has more than 64 attributes`},
		{"/v1/check", `{"domain":"` + strings.Repeat("a", maxBody) + `"}`, 413, "more than 65536 bytes"},
		{"/v1/check/batch", `{}`, 400, `field "checks" is missing`},
		{"/v1/check/batch", `{"checks":{}}`, 400, `field "checks" must be an array`},
		{"/v1/check/batch", `{"checks":[]}`, 400, `field "checks" must not be empty`},
		{"/v1/check/batch", `{"checks":[{},1]}`, 400, `field "checks[1]" must be an object`},
		{"/v1/check/batch", `{"checks":[{},{"cost":"x"}]}`, 400, `field "checks[1].cost" must be an integer`},
		{"/v1/check/batch", `{"checks":[{},{"attributes":{"a":{}}}]}`, 400, `field "checks[1].attributes.a" must be a string`},
		{"/v1/check/batch", `{"checks":[{},{"attrs":{}}]}`, 400, `field "checks[1].attrs" is unknown`},
		{"/v1/check/batch", `{"checks":[{},{"cost":0}]}`, 400, `field "checks[1].cost" must not be 0`},
		{"/v1/check/batch", `{"checks":[{},{"cost":-3}]}`, 403, `field "checks[1].cost"`},
		{"/v1/check/batch", `{"checks":[` + many(101, `{}`) + `]}`, 400, `field "checks" has more than 100 elements`},
		{"/v1/report", `{}`, 400, `field "outcome" is missing`},
		{"/v1/report", `{"outcome":"status=999"}`, 400, `status`},
		{"/v1/report", `{"outcome":"status=401","cost":0}`, 400, `field "cost" must be at least 1`},
		{"/v1/report", `{"outcome":"status=401","peek":true}`, 400, `field "peek" is unknown`},
		{"/v1/throttle", `{"max_burst":1,"count_per_period":1,"period":60}`, 400, `field "key" is missing`},
		{"/v1/throttle", `{"key":"","max_burst":1,"count_per_period":1,"period":60}`, 400, `field "key" must not be empty`},
		{"/v1/throttle", `{"key":"a","max_burst":-1,"count_per_period":1,"period":60}`, 400, `field "max_burst" must be at least 0`},
		{"/v1/throttle", `{"key":"a","max_burst":1,"count_per_period":0,"period":60}`, 400, `field "count_per_period" must be at least 1`},
		{"/v1/throttle", `{"key":"a","max_burst":1,"count_per_period":1,"period":"1w"}`, 400, `field "period" must be a number of seconds`},
		{"/v1/throttle", `{"key":"a","max_burst":1,"count_per_period":1,"period":1.5}`, 400, `field "period" must be`},
		{"/v1/throttle", `{"key":"a","max_burst":1,"count_per_period":1,"period":"MS"}`, 400, `field "period" must be`},
		{"/v1/throttle", `{"key":"a","max_burst":1,"count_per_period":1,"period":[]}`, 400, `field "period" must be`},
		{"/v1/throttle", `{"key":"a","max_burst":1,"count_per_period":1,"period":0}`, 400, `period`},
		{"/v1/throttle", `{"key":"a","max_burst":1,"count_per_period":1,"period":60,"quantity":-1}`, 403, `field "quantity"`},
		{"/v1/window", `{"key":"a","limit":1,"period":60,"algorithm":"buckets"}`, 400, `field "algorithm" must be one of sliding, fixed, log`},
		{"/v1/window", `{"key":"a","limit":0,"period":60}`, 400, `field "limit" must be at least 1`},
	} {
		r := l.post(c.target, c.body)
		if p := r.object(t); r.StatusCode != c.status || !strings.Contains(fmt.Sprint(p["message"]), c.message) {
			t.Errorf("%s %.80s: %d %v, want %d %q", c.target, c.body, r.StatusCode, p["message"], c.status, c.message)
		}
	}
}

func TestMediaType(t *testing.T) {
	l := start(t, nil)
	for _, c := range []struct {
		lines  []string
		status int
	}{
		{[]string{"Content-Type: application/json"}, 200},
		{[]string{"Content-Type: application/json; charset=utf-8"}, 200},
		{[]string{"Content-Type: Application/JSON"}, 200},
		{[]string{"Content-Type: text/plain"}, 415},
		{[]string{"Content-Type: application/x-www-form-urlencoded"}, 415},
		{[]string{"Content-Type: application/jsonp"}, 415},
		{nil, 415},
		{[]string{"Content-Type: application/json", "Content-Type: text/plain"}, 415},
		{[]string{"Content-Type: application/json", "Content-Encoding: gzip"}, 415},
	} {
		if r := l.do("POST", "/v1/check", "{}", c.lines...); r.StatusCode != c.status {
			t.Errorf("%q: %d, want %d", c.lines, r.StatusCode, c.status)
		}
	}
}

// With a password, its holder may refund units.
func TestRefund(t *testing.T) {
	l := start(t, func(o *options.Options) { o.RequirePass = "secret" })
	const auth = "Authorization: Bearer secret"
	const login = `{"attributes":{"path":"/login","ip":"::1"}`
	for _, c := range []struct {
		target, body, remaining string
	}{
		{"/v1/check", login + `,"cost":2}`, `"remaining":0`},
		{"/v1/check", login + `,"cost":-1}`, `"remaining":1`},
		{"/v1/throttle", `{"key":"a","max_burst":1,"count_per_period":1,"period":60,"quantity":2}`, `"remaining":0`},
		{"/v1/throttle", `{"key":"a","max_burst":1,"count_per_period":1,"period":60,"quantity":-2}`, `"remaining":2`},
	} {
		if r := l.post(c.target, c.body, auth); r.StatusCode != 200 || !strings.Contains(r.text, c.remaining) {
			t.Errorf("%s %s: %d %s, want %s", c.target, c.body, r.StatusCode, r.text, c.remaining)
		}
	}
}

// failing is a Runner that returns an error or an error reply, or panics.
type failing struct {
	err   error
	reply string
}

func (f failing) Run(_, replies []byte) ([]byte, error) {
	if f.err == nil && f.reply == "" {
		panic("a bug")
	}
	return append(replies, f.reply...), f.err
}

func (failing) As(acl.Login) {}

func (failing) Close() {}

// withRunner makes a Server decide with a Runner.
func withRunner(r decision.Runner) func(*Server) {
	return func(s *Server) { s.checker = decision.New(func() decision.Runner { return r }) }
}

// A request that cannot be decided is answered with 503, also by the check endpoints.
func TestUndecided(t *testing.T) {
	for _, c := range []struct {
		name    string
		runner  failing
		status  int
		error   string
		message string
		retry   string
	}{
		{"no leader", failing{reply: "-LOADING no leader\r\n"}, 503, "unavailable", "no leader", "1"},
		{"uncertain", failing{reply: "-UNCERTAIN it may have been charged\r\n"}, 503, "uncertain", "may have been charged", ""},
		{"broken", failing{err: io.ErrUnexpectedEOF}, 503, "uncertain", "may have been charged", ""},
		{"panic", failing{}, 500, "internal", "bug", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := start(t, nil, withRunner(c.runner))
			_, path, lines := checkRequest(&gateways[0], "shop", "GET", "/login", "192.0.2.7")
			for _, r := range []*reply{
				l.do("GET", path, "", lines...),
				l.post("/v1/check", "{}"),
				l.post("/v1/report", `{"outcome":"status=401"}`),
				l.post("/v1/throttle", `{"key":"a","max_burst":1,"count_per_period":1,"period":60}`),
				l.post("/v1/window", `{"key":"a","limit":1,"period":60}`),
			} {
				p := r.object(t)
				if r.StatusCode != c.status || p["error"] != c.error || !strings.Contains(p["message"].(string), c.message) || r.Header.Get("X-RateLimit-Decision") != "error" {
					t.Errorf("%s: %d %v, decision %q", r.Request.URL.Path, r.StatusCode, p, r.Header.Get("X-RateLimit-Decision"))
				}
				if got := r.Header.Get("Retry-After"); got != c.retry {
					t.Errorf("%s: Retry-After %q, want %q", r.Request.URL.Path, got, c.retry)
				}
			}
			batch := l.post("/v1/check/batch", `{"checks":[{}]}`)
			if c.runner.reply != "" && !strings.Contains(batch.text, `"error":"`+c.error+`"`) {
				t.Errorf("a batch: got %s, want the error %q", batch.text, c.error)
			}
			if r := l.do("GET", "/healthz", ""); r.StatusCode != 200 {
				t.Errorf("health %d", r.StatusCode)
			}
		})
	}
}

// notReady is an Access of a server that cannot decide requests.
type notReady struct{ Access }

func (notReady) Ready() error { return errors.New("the cluster has no leader") }

func TestReady(t *testing.T) {
	l := start(t, nil, func(s *Server) { s.access = notReady{s.access} })
	if r := l.do("GET", "/readyz", ""); r.StatusCode != 503 || r.object(t)["message"] != "the cluster has no leader" {
		t.Errorf("%d %s", r.StatusCode, r.text)
	}
}
