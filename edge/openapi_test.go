package edge

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/options"
)

// document is the parsed OpenAPI document.
type document struct {
	Paths map[string]map[string]struct {
		RequestBody struct {
			Content map[string]struct{ Schema map[string]any }
		}
		Responses map[string]struct {
			Content map[string]struct{ Schema map[string]any }
		}
		Security []any
	}
	Components struct{ Schemas map[string]map[string]any }
}

func openAPIOf(t *testing.T, l *lab) (d document) {
	t.Helper()
	if err := json.Unmarshal([]byte(l.do("GET", "/openapi.json", "").text), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// validator checks values against the schemas of the document, with the keywords that it uses, and records the properties
// that it has seen.
type validator struct {
	schemas map[string]map[string]any
	seen    map[string]bool // such as "Limit.wait_ms"
}

func (v *validator) check(at string, s map[string]any, value any) error {
	if ref, ok := s["$ref"].(string); ok {
		name := ref[strings.LastIndex(ref, "/")+1:]
		if v.schemas[name] == nil {
			return fmt.Errorf("%s: no schema %s", at, name)
		}
		return v.check(name, v.schemas[name], value)
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		if list, ok := s[keyword].([]any); ok {
			return v.any(at, list, value)
		}
	}
	switch s["type"] {
	case "object":
		return v.object(at, s, value)
	case "array":
		list, ok := value.([]any)
		if !ok {
			return fmt.Errorf("%s: %v is no array", at, value)
		}
		for _, item := range list {
			if err := v.check(at, s["items"].(map[string]any), item); err != nil {
				return err
			}
		}
		return nil
	}
	return scalar(at, s, value)
}

func (v *validator) any(at string, list []any, value any) error {
	var reasons []string
	for _, one := range list {
		err := v.check(at, one.(map[string]any), value)
		if err == nil {
			return nil
		}
		reasons = append(reasons, err.Error())
	}
	return fmt.Errorf("%s: no alternative: %s", at, strings.Join(reasons, "; "))
}

func (v *validator) object(at string, s map[string]any, value any) error {
	m, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: %v is no object", at, value)
	}
	properties, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	for _, name := range required {
		if _, ok := m[name.(string)]; !ok {
			return fmt.Errorf("%s: %v is missing", at, name)
		}
	}
	for name, member := range m {
		inner, ok := properties[name].(map[string]any)
		if !ok {
			if s["additionalProperties"] == false {
				return fmt.Errorf("%s: unknown member %s", at, name)
			}
			continue
		}
		if err := v.check(at+"."+name, inner, member); err != nil {
			return err
		}
	}
	for name := range m {
		v.seen[at+"."+name] = true
	}
	return nil
}

func scalar(at string, s map[string]any, value any) error {
	ok := true
	switch s["type"] {
	case "integer":
		n, isNumber := value.(float64)
		ok = isNumber && n == float64(int64(n))
		if least, has := s["minimum"].(float64); ok && has {
			ok = n >= least
		}
	case "string":
		_, ok = value.(string)
	case "boolean":
		_, ok = value.(bool)
	}
	if list, has := s["enum"].([]any); has {
		ok = ok && slices.Contains(list, value)
	}
	if constant, has := s["const"]; has {
		ok = ok && constant == value
	}
	if !ok {
		return fmt.Errorf("%s: %v does not match %v", at, value, s)
	}
	return nil
}

// sample is a request and the status of its response.
type sample struct {
	method, path, body string
	status             int
}

var samples = []sample{
	{"POST", "/v1/check", `{"attributes":{"path":"/login","ip":"::1"}}`, 200},
	{"POST", "/v1/check", `{"attributes":{"path":"/login","ip":"::1"},"cost":2}`, 429},
	{"POST", "/v1/check", `{"attributes":{"path":"/queue"}}`, 200},
	{"POST", "/v1/check", `{"attributes":{"path":"/queue"}}`, 200},
	{"POST", "/v1/check", `{"attributes":{"path":"/hidden"}}`, 429},
	{"POST", "/v1/check", `{"cost":"x"}`, 400},
	{"POST", "/v1/check/batch", `{"checks":[{},{"domain":"x"},{"attributes":{"path":"/hidden"}},{"attributes":{"path":"/login","ip":"::1"},"cost":2}]}`, 200},
	{"POST", "/v1/check/batch", `{"checks":1}`, 400},
	{"POST", "/v1/report", `{"attributes":{"path":"/report","ip":"::1"},"outcome":"status=401"}`, 200},
	{"POST", "/v1/report", `{"attributes":{"path":"/report","ip":"::1"},"outcome":"status=401"}`, 200},
	{"POST", "/v1/report", `{}`, 400},
	{"POST", "/v1/throttle", `{"key":"a","max_burst":0,"count_per_period":1,"period":60}`, 200},
	{"POST", "/v1/throttle", `{"key":"a","max_burst":0,"count_per_period":1,"period":60}`, 429},
	{"POST", "/v1/throttle", `{}`, 400},
	{"POST", "/v1/window", `{"key":"w","limit":1,"period":60}`, 200},
	{"POST", "/v1/window", `{"key":"w","limit":1,"period":60}`, 429},
	{"POST", "/v1/window", `{"key":"w","limit":1,"period":60,"quantity":-1}`, 403},
	{"POST", "/v1/window", strings.Repeat(" ", maxBody+1), 413},
	{"GET", "/v1/rules", "", 200},
	{"GET", "/openapi.json", "", 200},
	{"GET", "/healthz", "", 200},
	{"GET", "/readyz", "", 200},
	{"GET", "/metrics", "", 200},
}

// Each response is documented and matches its schema, and each documented member of a response is produced.
func TestOpenAPI_Responses(t *testing.T) {
	l := start(t, nil)
	d := openAPIOf(t, l)
	v := &validator{d.Components.Schemas, map[string]bool{}}
	check := func(r *reply, s sample) {
		t.Helper()
		if r.StatusCode != s.status {
			t.Errorf("%s %s %.60s: %d %s, want %d", s.method, s.path, s.body, r.StatusCode, r.text, s.status)
		}
		v.response(t, &d, r, s)
	}
	for _, s := range samples {
		check(l.do(s.method, s.path, s.body, "Content-Type: application/json"), s)
	}
	check(l.do("GET", "/v1/rules", "", "Host: evil.example"), sample{"GET", "/v1/rules", "", 421})
	check(l.do("POST", "/v1/check", "{}"), sample{"POST", "/v1/check", "", 415})
	locked := start(t, func(o *options.Options) { o.RequirePass, o.AuthFailuresPerMinute = "secret", 1 })
	check(locked.do("GET", "/v1/rules", ""), sample{"GET", "/v1/rules", "", 401})
	check(locked.do("GET", "/v1/rules", "", "X-Throttled-Token: a"), sample{"GET", "/v1/rules", "", 401})
	check(locked.do("GET", "/v1/rules", "", "X-Throttled-Token: a"), sample{"GET", "/v1/rules", "", 429})
	l = start(t, nil, func(s *Server) { s.rules = nil })
	check(l.do("GET", "/v1/rules", ""), sample{"GET", "/v1/rules", "", 404})
	l.Drain()
	check(l.do("GET", "/readyz", ""), sample{"GET", "/readyz", "", 503})
	for name, s := range d.Components.Schemas {
		if name == "Check" { // a request
			continue
		}
		for _, member := range slices.Sorted(maps.Keys(s["properties"].(map[string]any))) {
			if !v.seen[name+"."+member] {
				t.Errorf("the documented member %s.%s was not produced", name, member)
			}
		}
	}
}

// response checks a response against the document.
func (v *validator) response(t *testing.T, d *document, r *reply, s sample) {
	t.Helper()
	documented, ok := d.Paths[s.path][strings.ToLower(s.method)].Responses[fmt.Sprint(r.StatusCode)]
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	content, has := documented.Content[kind]
	if !ok || !has {
		t.Errorf("%s %s: %d with %s is not documented", s.method, s.path, r.StatusCode, kind)
		return
	}
	if kind == "text/plain" {
		return
	}
	var value any
	if err := json.Unmarshal([]byte(r.text), &value); err != nil {
		t.Errorf("%s %s: %v", s.method, s.path, err)
		return
	}
	if err := v.check("body", content.Schema, value); err != nil {
		t.Errorf("%s %s: %d %s: %v", s.method, s.path, r.StatusCode, r.text, err)
	}
}

// The document has exactly the endpoints and fields that the server has.
func TestOpenAPI_Requests(t *testing.T) {
	l := start(t, nil)
	d := openAPIOf(t, l)
	if len(d.Paths) != len(l.endpoints) {
		t.Errorf("%d paths, want %d", len(d.Paths), len(l.endpoints))
	}
	for path, methods := range d.Paths {
		for method, operation := range methods {
			r := l.do(strings.ToUpper(method), path, "{}", "Content-Type: application/json")
			if r.StatusCode == 404 || r.StatusCode == 405 {
				t.Errorf("%s %s: %d", method, path, r.StatusCode)
			}
			schema := operation.RequestBody.Content["application/json"].Schema
			if properties, ok := schema["properties"].(map[string]any); ok {
				requestFields(t, l, path, properties, schema["required"])
			}
		}
	}
}

// requestFields checks that the documented fields are known, and the required ones are required.
func requestFields(t *testing.T, l *lab, path string, properties map[string]any, required any) {
	t.Helper()
	for name := range properties {
		if r := l.post(path, fmt.Sprintf(`{%q:null}`, name)); !strings.Contains(r.text, `field \"`+name+`\" must be`) {
			t.Errorf("%s: field %s: %s", path, name, r.text)
		}
	}
	names, _ := required.([]any)
	if r := l.post(path, "{}"); strings.Contains(r.text, "is missing") != (len(names) > 0) {
		t.Errorf("%s: required %v, but {} returns %s", path, names, r.text)
	}
}
