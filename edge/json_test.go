package edge

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

func TestJSON_Commands(t *testing.T) {
	for _, c := range []struct{ path, body, reply, want string }{
		{"/v1/check", `{"domain":"shop","attributes":{"path":"/login"}}`, admitted, "CL.CHECK shop MS -- path /login"},
		{"/v1/check", `{"domain":"shop","cost":3}`, admitted, "CL.CHECK shop COST 3 MS --"},
		{"/v1/check", `{"domain":"shop","cost":3,"peek":true}`, admitted, "CL.CHECK shop PEEK MS --"},
		{"/v1/check/batch", `{"checks":[{"domain":"a"},{"domain":"b","cost":2}]}`, admitted, "CL.CHECK a MS --\nCL.CHECK b COST 2 MS --"},
		{"/v1/report", `{"domain":"shop","attributes":{"ip":"::1"},"outcome":"status=401"}`, admitted, "CL.REPORT shop OUTCOME status=401 COST 1 MS -- ip ::1"},
		{"/v1/throttle", `{"key":"user:1","max_burst":15,"count_per_period":30,"period":60}`, fiveIntegers, "CL.THROTTLE user:1 15 30 60 1 MS"},
		{"/v1/throttle", `{"key":"user:1","max_burst":15,"count_per_period":30,"period":60,"quantity":4}`, fiveIntegers, "CL.THROTTLE user:1 15 30 60 4 MS"},
		{"/v1/window", `{"key":"k","limit":15,"period":60}`, fiveIntegers, "CL.WINDOW k 15 60 1 MS"},
		{"/v1/window", `{"key":"k","limit":15,"period":60,"algorithm":"buckets","buckets":6}`, fiveIntegers, "CL.WINDOW k 15 60 1 buckets 6 MS"},
	} {
		f := newFake(t, func(f *fake) { f.reply = c.reply })
		response, body := f.post(t, c.path, c.body)
		if got := strings.Join(f.commands, "\n"); response.StatusCode != 200 || got != c.want {
			t.Errorf("%s %s: status %d, commands %q, want %q; body %s", c.path, c.body, response.StatusCode, got, c.want, body)
		}
	}
}

// wantJSON compares a body with the expected value.
func wantJSON(t *testing.T, body, want string) {
	t.Helper()
	var a, b any
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatalf("the body %q is not JSON: %v", body, err)
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("body\n%s, want\n%s", body, want)
	}
}

func TestJSON_Admitted(t *testing.T) {
	f := newFake(t, nil)
	response, body := f.post(t, "/v1/check", `{"domain":"shop"}`)
	wantJSON(t, body, `{"allowed":true,"limit":5,"remaining":4,"retry_after_seconds":null,"reset_after_seconds":1.5,"name":"login","flags":[],"version":7,
		"limits":[{"name":"login","window":"1m","allowed":true,"limit":5,"remaining":4,"retry_after_seconds":null,"reset_after_seconds":1.5,"flags":[]}]}`)
	for name, want := range map[string]string{"Content-Type": "application/json", "X-RateLimit-Remaining": "4", "Cache-Control": "no-store", "X-RateLimit-Decision": "allow"} {
		if got := response.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestJSON_Refused(t *testing.T) {
	f := newFake(t, func(f *fake) { f.reply = refused })
	response, body := f.post(t, "/v1/check", `{"domain":"shop"}`)
	if response.StatusCode != 429 || response.Header.Get("Content-Type") != "application/problem+json" || response.Header.Get("Retry-After") != "3" {
		t.Errorf("status %d, headers %v", response.StatusCode, response.Header)
	}
	var problem map[string]any
	if err := json.Unmarshal([]byte(body), &problem); err != nil {
		t.Fatalf("the body %q is not JSON: %v", body, err)
	}
	for name, want := range map[string]any{"status": 429.0, "error": "rate_limited", "retry_after_seconds": 3.0, "allowed": false, "remaining": 0.0, "name": "login", "version": 7.0} {
		if !reflect.DeepEqual(problem[name], want) {
			t.Errorf("%s is %v, want %v", name, problem[name], want)
		}
	}
	if problem["message"] == "" || problem["title"] == "" || !strings.HasSuffix(problem["type"].(string), "#quota-exceeded") {
		t.Errorf("problem %v", problem)
	}
}

// The results of a batch are in the order of the checks, and those that failed have an error.
func TestJSON_Batch(t *testing.T) {
	f := newFake(t, func(f *fake) { f.reply = "-ERR unknown domain\r\n" })
	response, body := f.post(t, "/v1/check/batch", `{"checks":[{"domain":"a"}]}`)
	if response.StatusCode != 200 {
		t.Errorf("status %d", response.StatusCode)
	}
	wantJSON(t, body, `{"results":[{"error":"invalid_request","message":"unknown domain"}]}`)
}

func TestJSON_Errors(t *testing.T) {
	long := `{"domain":"` + strings.Repeat("a", maxBody) + `"}`
	for _, c := range []struct {
		path, body string
		status     int
		message    string
	}{
		{"/v1/check", ``, 400, "the body is not complete; it must be a JSON object"},
		{"/v1/check", `{`, 400, "the body is not complete"},
		{"/v1/check", `[]`, 400, "the body must be an object, not array"},
		{"/v1/check", `{"domain":5}`, 400, "domain must be a string, not number"},
		{"/v1/check", `{"domain":"a","cost":1.5}`, 400, "cost must be an integer of 64 bits, not number 1.5"},
		{"/v1/check", `{"domain":"a","cost":1e30}`, 400, "cost must be an integer of 64 bits"},
		{"/v1/check", `{"domain":"a","attributes":{"a":1}}`, 400, "attributes"},
		{"/v1/check", `{"domain":"a","cots":1}`, 400, `\"cots\" is not a member of the request`},
		{"/v1/check", `{"domain":"a"} x`, 400, "the body must be one JSON object"},
		{"/v1/check", `{"domain":"a"}{}`, 400, "the body must be one JSON object"},
		{"/v1/check", `{"domain":a}`, 400, "the body is not valid JSON"},
		{"/v1/check", `{}`, 400, "domain is missing"},
		{"/v1/check", `{"domain":"a","cost":0}`, 400, "cost must not be 0"},
		{"/v1/check", `{"domain":"a","cost":-1}`, 400, "refunds need a server with a password"},
		{"/v1/check", long, 413, "at most 65536 bytes"},
		{"/v1/check/batch", `{"checks":[]}`, 400, "checks must have 1 to 64 elements, not 0"},
		{"/v1/check/batch", `{"checks":[{"domain":"a"},{}]}`, 400, "checks[1]: domain is missing"},
		{"/v1/report", `{"domain":"a"}`, 400, "outcome is missing"},
		{"/v1/throttle", `{"max_burst":1}`, 400, "key is missing"},
		{"/v1/window", `{"key":"a","algorithm":"x"}`, 400, `algorithm must be sliding, fixed, log or buckets, not \"x\"`},
	} {
		f := newFake(t, nil)
		response, body := f.post(t, c.path, c.body)
		if response.StatusCode != c.status || !strings.Contains(body, c.message) {
			t.Errorf("%s %.60s: status %d, body %s; want %d, %s", c.path, c.body, response.StatusCode, body, c.status, c.message)
		}
		if len(f.commands) > 0 {
			t.Errorf("%s %.60s: commands %q", c.path, c.body, f.commands)
		}
	}
}

// Refunds are privileged.
func TestJSON_Refund(t *testing.T) {
	f := newFake(t, func(f *fake) { f.access.password = "secret" })
	response, body := f.post(t, "/v1/check", `{"domain":"a","cost":-2}`, "Authorization: Bearer secret")
	if got := strings.Join(f.commands, "\n"); response.StatusCode != 200 || got != "CL.CHECK a COST -2 MS --" {
		t.Errorf("status %d, body %s, commands %q", response.StatusCode, body, got)
	}
}

func TestJSON_Access(t *testing.T) {
	const body = `{"domain":"a"}`
	secret := func(f *fake) { f.access.password = "secret" }
	for _, c := range []struct {
		name, headers string
		change        func(f *fake)
		status        int
	}{
		{"bearer", "Authorization: Bearer secret", secret, 200},
		{"basic", "Authorization: Basic ZGVmYXVsdDpzZWNyZXQ=", secret, 200},
		{"token", "X-Throttled-Token: secret", secret, 200},
		{"no password", "X-Other: 1", secret, 401},
		{"wrong password", "Authorization: Bearer other", secret, 401},
		{"malformed basic", "Authorization: Basic ???", secret, 401},
		{"other scheme", "Authorization: Digest secret", secret, 401},
		{"two passwords", "Authorization: Bearer other\r\nAuthorization: Bearer secret", secret, 401},
		{"same origin", "Origin: http://localhost", nil, 200},
		{"cross origin", "Origin: http://evil.example", nil, 403},
		{"opaque origin", "Origin: null", nil, 403},
		{"protected mode", "X-Other: 1", func(f *fake) { f.access.refused = true }, 403},
	} {
		f := newFake(t, c.change)
		if response, body := f.post(t, "/v1/check", body, c.headers); response.StatusCode != c.status || c.status == 401 && response.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: status %d, body %s, want %d", c.name, response.StatusCode, body, c.status)
		}
	}
}

func TestHosts(t *testing.T) {
	f := newFake(t, func(f *fake) { f.options.HTTPHosts = []string{"Limits.example"} })
	for host, status := range map[string]int{"localhost:6381": 200, "127.0.0.1": 200, "[::1]:6381": 200, "limits.EXAMPLE:80": 200, "evil.example": 421, "127.0.0.1.evil.example": 421} {
		response, body := f.exchange(t, "POST /v1/check HTTP/1.1\r\nHost: "+host+"\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: 14\r\n\r\n"+`{"domain":"a"}`)
		if response.StatusCode != status {
			t.Errorf("host %s: status %d, body %s, want %d", host, response.StatusCode, body, status)
		}
	}
	if response, body := f.post(t, "/v1/check", `{}`, "Content-Type: text/plain"); response.StatusCode != 400 {
		t.Errorf("status %d, body %s", response.StatusCode, body)
	}
	if response, _ := f.exchange(t, "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}"); response.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("text/plain: status %d, want 415", response.StatusCode)
	}
}
