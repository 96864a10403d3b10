package edge

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/options"
)

// Without a password, the Host must be known, and pages of other sites are refused. Gateways forward both headers of their
// clients, so check requests are not examined.
func TestHost(t *testing.T) {
	l := start(t, func(o *options.Options) { o.HTTPHosts = []string{"limits.Example.com"} })
	for _, c := range []struct {
		line   string
		status int
		word   any
	}{
		{"Host: localhost", 200, nil},
		{"Host: localhost:6381", 200, nil},
		{"Host: 127.0.0.1", 200, nil},
		{"Host: 198.51.100.1:80", 200, nil},
		{"Host: [::1]", 200, nil},
		{"Host: [::1]:6381", 200, nil},
		{"Host: limits.example.com", 200, nil},
		{"Host: LIMITS.example.com.:80", 200, nil},
		{"Host: example.com", 421, "unknown_host"},
		{"Host: localhost.example.com", 421, "unknown_host"},
		{"Host: 127.0.0.1.example.com", 421, "unknown_host"},
		{"Host: evil.limits.example.com", 421, "unknown_host"},
		{"Host: localhost:80:80", 421, "unknown_host"},
		{"Origin: http://localhost", 403, "origin"},
		{"Origin: null", 403, "origin"},
	} {
		r := l.do("GET", "/v1/rules", "", c.line)
		if p := r.object(t); r.StatusCode != c.status || p["error"] != c.word {
			t.Errorf("%s: %d %v, want %d %v", c.line, r.StatusCode, p["error"], c.status, c.word)
		}
		if len(r.Header.Values("Access-Control-Allow-Origin")) > 0 {
			t.Errorf("%s: CORS headers", c.line)
		}
	}
	verb, path, lines := checkRequest(&gateways[0], "shop", "GET", "/free", "192.0.2.7")
	if r := l.do(verb, path, "", append(lines, "Host: anything.example", "Origin: http://evil.example")...); r.StatusCode != 200 {
		t.Errorf("check request: %d %s", r.StatusCode, r.text)
	}
}

func basic(user, password string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

func TestPassword(t *testing.T) {
	l := start(t, func(o *options.Options) { o.RequirePass, o.AuthFailuresPerMinute = "pass:word", 0 })
	verb, path, lines := checkRequest(&gateways[2], "shop", "GET", "/free", "192.0.2.7")
	for _, c := range []struct {
		lines      []string
		api, check int // statuses
	}{
		{nil, 401, 401},
		{[]string{"Authorization: Bearer pass:word"}, 200, 401},
		{[]string{"Authorization: bearer  pass:word"}, 200, 401},
		{[]string{basic("", "pass:word")}, 200, 401},
		{[]string{basic("default", "pass:word")}, 200, 401},
		{[]string{"X-Throttled-Token: pass:word"}, 200, 200},
		{[]string{"X-Throttled-Token: pass:word", basic("client", "other")}, 200, 200},
		{[]string{"X-Throttled-Token: wrong", "Authorization: Bearer pass:word"}, 401, 401},
		{[]string{"X-Throttled-Token: pass:word", "X-Throttled-Token: pass:word"}, 401, 401},
		{[]string{"Authorization: Bearer pass:word", "Authorization: Bearer pass:word"}, 401, 401},
		{[]string{"Authorization: Bearer wrong"}, 401, 401},
		{[]string{"Authorization: Bearer"}, 401, 401},
		{[]string{"Authorization: pass:word"}, 401, 401},
		{[]string{"Authorization: Digest pass:word"}, 401, 401},
		{[]string{"Authorization: Basic pass:word"}, 401, 401},
		{[]string{"Authorization: Basic cGFzcw=="}, 401, 401},
		{[]string{"X-Throttled-Token: "}, 401, 401},
	} {
		r := l.do("GET", "/v1/rules", "", append(c.lines, "Host: any.example")...)
		if r.StatusCode != c.api || c.api == 401 && len(r.Header.Values("WWW-Authenticate")) != 2 {
			t.Errorf("%q: %d, challenges %q, want %d", c.lines, r.StatusCode, r.Header.Values("WWW-Authenticate"), c.api)
		}
		r = l.do(verb, path, "", append(c.lines, lines...)...)
		if r.StatusCode != c.check || c.check == 401 && (len(r.Header.Values("WWW-Authenticate")) != 1 || r.Header.Get("X-RateLimit-Decision") != "error") {
			t.Errorf("%q: check %d, %v, want %d", c.lines, r.StatusCode, r.Header, c.check)
		}
	}
	for target, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 401, "/openapi.json": 401, "/none": 401, "/v1/check": 401} {
		if r := l.do("GET", target, ""); r.StatusCode != want {
			t.Errorf("%s without a password: %d, want %d", target, r.StatusCode, want)
		}
	}
}

// Wrong passwords are limited by address. A connection that has sent the right one is not affected, until the password is
// changed.
func TestPassword_Limit(t *testing.T) {
	l := start(t, func(o *options.Options) { o.RequirePass, o.AuthFailuresPerMinute = "secret", 2 })
	const right = "GET /v1/rules HTTP/1.1\r\nHost: a\r\nX-Throttled-Token: secret\r\n\r\n"
	c := l.dial()
	in := bufio.NewReader(c)
	if r := roundTrip(t, c, in, right); r.StatusCode != 200 {
		t.Fatalf("right password: %d %s", r.StatusCode, r.text)
	}
	for range 5 { // no password is no failure
		if r := l.do("GET", "/v1/rules", ""); r.StatusCode != 401 {
			t.Fatalf("no password: %d", r.StatusCode)
		}
	}
	for i, want := range []int{401, 401, 429} {
		r := l.do("GET", "/v1/rules", "", fmt.Sprintf("X-Throttled-Token: wrong%d", i))
		if r.StatusCode != want || want == 429 && (r.object(t)["error"] != "too_many_failures" || r.Header.Get("Retry-After") == "") {
			t.Errorf("wrong password %d: %d %s, want %d", i, r.StatusCode, r.text, want)
		}
	}
	if r := l.do("GET", "/v1/rules", "", "X-Throttled-Token: secret"); r.StatusCode != 429 {
		t.Errorf("another connection: %d, want 429", r.StatusCode)
	}
	if r := roundTrip(t, c, in, right); r.StatusCode != 200 {
		t.Errorf("authenticated connection: %d %s", r.StatusCode, r.text)
	}
	if err := l.opts.Set([]options.Pair{{Name: "requirepass", Value: "changed"}}); err != nil {
		t.Fatal(err)
	}
	if r := roundTrip(t, c, in, right); r.StatusCode == 200 {
		t.Error("the old password is accepted")
	}
}

// closedTo is an Access that accepts no clients.
type closedTo struct{ Access }

func (closedTo) Accepts(net.Addr) bool { return false }

func TestProtectedMode(t *testing.T) {
	l := start(t, nil, func(s *Server) { s.access = closedTo{s.access} })
	for _, target := range []string{"/check/nginx", "/v1/rules", "/metrics", "/openapi.json", "/healthz/x", "/nowhere"} {
		if r := l.do("GET", target, ""); r.StatusCode != http.StatusForbidden || r.object(t)["error"] != "protected_mode" || !r.Close {
			t.Errorf("%s: %d %s, closed %v", target, r.StatusCode, r.text, r.Close)
		}
	}
}

// TestProtectedMode_Probes checks that clients on other hosts can use the health endpoints, and that the reason why a server
// is not ready is not shown to them.
func TestProtectedMode_Probes(t *testing.T) {
	var server *Server
	l := start(t, nil, func(s *Server) { s.access, server = closedTo{s.access}, s })
	for _, target := range []string{"/healthz", "/readyz"} {
		if r := l.do("GET", target, ""); r.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s, want 200", target, r.StatusCode, r.text)
		}
	}
	server.Drain()
	r := l.do("GET", "/readyz", "")
	if r.StatusCode != http.StatusServiceUnavailable || !strings.Contains(r.text, errNotReady.Error()) || strings.Contains(r.text, errDraining.Error()) {
		t.Errorf("a server that is about to stop: %d %s, want 503 without the reason", r.StatusCode, r.text)
	}
}

// A PROXY header of a trusted proxy replaces the address of the connection.
func TestProxyProtocol(t *testing.T) {
	check := "GET /check/caddy/shop HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /login\r\nX-Forwarded-Host: a\r\n"
	const v2 = "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x09\x7f\x00\x00\x01\x1f\x90\x1f\x91" // 192.0.2.9
	l := start(t, func(o *options.Options) {
		o.HTTPProxyProtocol, o.RequirePass = true, "secret"
		o.TrustedProxies = append(o.TrustedProxies, netip.MustParsePrefix("203.0.113.0/24"))
	})
	check += "X-Throttled-Token: secret\r\n"
	for _, c := range []struct{ name, prefix, lines, want string }{
		{"version 1", "PROXY TCP4 192.0.2.1 127.0.0.1 8080 80\r\n", "", `"login";r=1;`},
		{"again", "PROXY TCP4 192.0.2.1 127.0.0.1 8080 80\r\n", "", `"login";r=0;`},
		{"version 2", v2, "", `"login";r=1;`},
		{"a client cannot add addresses", "PROXY TCP4 192.0.2.1 127.0.0.1 8080 80\r\n", "X-Forwarded-For: 192.0.2.77\r\n", "refused"},
		{"gateway behind a proxy", "PROXY TCP4 203.0.113.1 127.0.0.1 8080 80\r\n", "X-Forwarded-For: 192.0.2.5\r\n", `"login";r=1;`},
		{"no header", "", "X-Forwarded-For: 192.0.2.6\r\n", `"login";r=1;`},
		{"no address", "", "", "400 Bad Request"},
		{"malformed", "PROXY TCP4 x y 1 2\r\n", "", ""},
		{"incomplete version 2", v2[:14] + "\x00\x02\xc0\x00", "", ""},
	} {
		got := l.raw(c.prefix + check + c.lines + "\r\n")
		switch {
		case c.want == "":
			if strings.Contains(got, " 200 ") {
				t.Errorf("%s: %q, want an error or a closed connection", c.name, got)
			}
		case c.want == "refused":
			if !strings.Contains(got, " 429 ") {
				t.Errorf("%s: %q, want a refusal", c.name, got)
			}
		case !strings.Contains(got, c.want):
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Without trust, a PROXY header is no HTTP.
func TestProxyProtocol_Untrusted(t *testing.T) {
	l := start(t, func(o *options.Options) { o.HTTPProxyProtocol, o.TrustedProxies = true, nil })
	if got := l.raw("PROXY TCP4 192.0.2.1 127.0.0.1 8080 80\r\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"); !strings.Contains(got, "400 Bad Request") {
		t.Errorf("%q", got)
	}
	if got := l.raw("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); !strings.Contains(got, "200 OK") {
		t.Errorf("%q", got)
	}
}
