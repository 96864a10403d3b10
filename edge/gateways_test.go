package edge

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/options"
)

// checkRequest returns the target and the headers of a check request of a gateway.
func checkRequest(g *gateway, domain, method, target, ip string) (verb, path string, lines []string) {
	verb, path = "GET", checkPrefix+g.name+"/"+domain
	lines = []string{"X-Forwarded-For: " + ip}
	if g.target == "" {
		return method, path + target, append(lines, "Host: www.example.com")
	}
	return verb, path, append(lines, g.method+": "+method, g.target+": "+target, g.host+": www.example.com")
}

// Each gateway gets 200 for admitted requests, and its own status for refused ones, with the headers of the decision.
func TestCheck(t *testing.T) {
	l := start(t, nil)
	for i := range gateways {
		g := &gateways[i]
		t.Run(g.name, func(t *testing.T) {
			for n := range 3 {
				verb, path, lines := checkRequest(g, "shop", "POST", "/api/../login?x=1", fmt.Sprintf("192.0.2.%d", i))
				r := l.do(verb, path, "", lines...)
				want, decided := 200, "allow"
				if n == 2 {
					want, decided = g.refused, "deny"
				}
				if r.StatusCode != want || r.Header.Get("X-RateLimit-Decision") != decided {
					t.Fatalf("request %d: status %d, decision %q, %s; want %d, %q", n, r.StatusCode, r.Header.Get("X-RateLimit-Decision"), r.text, want, decided)
				}
				if got, want := r.Header.Get("RateLimit"), fmt.Sprintf(`"login";r=%d;t=`, max(1-n, 0)); !strings.HasPrefix(got, want) {
					t.Errorf("RateLimit %q, want %q", got, want)
				}
				for name, want := range map[string]string{"RateLimit-Policy": `"login";q=2;w=60`, "X-RateLimit-Limit": "2", "Cache-Control": "no-store"} {
					if got := r.Header.Get(name); got != want {
						t.Errorf("%s %q, want %q", name, got, want)
					}
				}
				if n < 2 {
					if r.text != "" || r.ContentLength != 0 || r.Header.Get("Retry-After") != "" {
						t.Errorf("body %q, Retry-After %q; want none", r.text, r.Header.Get("Retry-After"))
					}
					continue
				}
				p := r.object(t)
				if p["error"] != "rate_limited" || p["status"] != float64(g.refused) || r.Header.Get("Content-Type") != "application/problem+json" || r.Header.Get("Retry-After") == "" {
					t.Errorf("refusal %v, headers %v", p, r.Header)
				}
			}
		})
	}
}

// The domain is that of the path, or the option edge-domain.
func TestCheck_Domain(t *testing.T) {
	l := start(t, nil)
	for _, c := range []struct {
		gateway, path string
		want          string // RateLimit-Policy
	}{
		{"caddy", "/check/caddy/other", `"default";q=1;w=3600`},
		{"caddy", "/check/caddy/other?domain=shop", `"default";q=1;w=3600`},
		{"caddy", "/check/caddy", `"login";q=2;w=60`},
		{"caddy", "/check/caddy/", `"login";q=2;w=60`},
		{"caddy", "/check/caddy/-", `"login";q=2;w=60`},
		{"envoy", "/check/envoy/-/login", `"login";q=2;w=60`},
		{"envoy", "/check/envoy//login", `"login";q=2;w=60`},
		{"envoy", "/check/envoy/shop//login?a=/b", `"login";q=2;w=60`},
		{"envoy", "/check/envoy/other/login", `"default";q=1;w=3600`},
		{"envoy", "/check/envoy/shop/%6cogin", `"login";q=2;w=60`},
		{"envoy", "/check/envoy/shop/x/%2e%2e/login;a=b", `"login";q=2;w=60`},
	} {
		lines := []string{"X-Forwarded-For: 192.0.2.1", "X-Forwarded-Method: GET", "X-Forwarded-Uri: /login", "X-Forwarded-Host: a"}
		if c.gateway == "envoy" {
			lines = lines[:1]
		}
		r := l.do("GET", c.path, "", lines...)
		if got := r.Header.Get("RateLimit-Policy"); got != c.want {
			t.Errorf("%s: status %d, policy %q %s, want %q", c.path, r.StatusCode, got, r.text, c.want)
		}
		l.now.Add(uint64(1e9) * 7200)
	}
}

// Headers that a client can send have no effect: only those of the gateway are read.
func TestCheck_ForeignHeaders(t *testing.T) {
	l := start(t, nil)
	for i := range gateways {
		g := &gateways[i]
		verb, path, lines := checkRequest(g, "shop", "GET", "/login", "192.0.2.7")
		for n := range 2 {
			foreign := []string{
				"X-Original-URL: /free", "X-Real-IP: 198.51.100.1", fmt.Sprintf("Forwarded: for=198.51.100.%d", n), "X-Cost: -5", "X-Domain: other",
				"X-HTTP-Method-Override: PUT", "X-Rewrite-URL: /free", "True-Client-IP: 198.51.100.3", "X-Forwarded-For: 192.0.2.7",
				"Authorization: Basic eDp5", "Origin: http://evil.example",
			}
			for _, other := range []string{"X-Original-Uri", "X-Original-Method", "X-Forwarded-Uri", "X-Forwarded-Method"} {
				if other != g.target && other != g.method {
					foreign = append(foreign, other+": /free")
				}
			}
			r := l.do(verb, path+"?cost=0&domain=other&ip=198.51.100.9", "ignored body", append(lines, foreign...)...)
			if want := fmt.Sprintf(`"login";r=%d;`, 1-n); r.StatusCode != 200 || !strings.HasPrefix(r.Header.Get("RateLimit"), want) {
				t.Errorf("%s: status %d, RateLimit %q, want %s %s", g.name, r.StatusCode, r.Header.Get("RateLimit"), want, r.text)
			}
		}
		l.now.Add(uint64(1e9) * 7200)
	}
}

// A header that is missing or repeated is an error of the gateway: it is visible, and in the log.
func TestCheck_Misconfigured(t *testing.T) {
	l := start(t, func(o *options.Options) { o.EdgeDomain = "" })
	for i := range gateways {
		g := &gateways[i]
		verb, path, lines := checkRequest(g, "shop", "GET", "/login", "192.0.2.7")
		cases := map[string][]string{}
		for n := range lines {
			name, _, _ := strings.Cut(lines[n], ":")
			if name == "Host" {
				continue
			}
			cases["without "+name] = append(append([]string{}, lines[:n]...), lines[n+1:]...)
			if name != "X-Forwarded-For" {
				cases["twice "+name] = append([]string{lines[n]}, lines...)
			}
		}
		for name, lines := range cases {
			r := l.do(verb, path, "", lines...)
			if p := r.object(t); r.StatusCode != 400 || p["error"] != "gateway" || !strings.Contains(fmt.Sprint(p["message"]), name[strings.Index(name, " ")+1:]) || r.Header.Get("X-RateLimit-Decision") != "error" {
				t.Errorf("%s %s: status %d, %v", g.name, name, r.StatusCode, p)
			}
		}
		_, path, lines = checkRequest(g, "-", "GET", "/login", "192.0.2.7")
		if r := l.do(verb, path, "", lines...); r.StatusCode != 400 || !strings.Contains(r.text, "edge-domain") {
			t.Errorf("%s without a domain: %d %s", g.name, r.StatusCode, r.text)
		}
	}
	if r := l.do("GET", "/check/envoy/shop", "", "X-Forwarded-For: 192.0.2.1"); r.StatusCode != 400 || !strings.Contains(r.text, "must follow the domain") {
		t.Errorf("no path: %d %s", r.StatusCode, r.text)
	}
	if r := l.do("GET", "/check/kong/shop", ""); r.StatusCode != 404 || !strings.Contains(r.text, "nginx, envoy") {
		t.Errorf("unknown gateway: %d %s", r.StatusCode, r.text)
	}
	if !strings.Contains(l.log.String(), "check request of a gateway was refused") {
		t.Errorf("log %q", l.log.String())
	}
}

// Invalid data of a client is a refusal for the gateway, never a failure of the limiter, after which the gateway might admit
// the request.
func TestCheck_InvalidRequest(t *testing.T) {
	l := start(t, nil)
	for i := range gateways {
		g := &gateways[i]
		for _, target := range []string{"/%zz", "/%00", "/a%", "/" + strings.Repeat("a", 5000)} {
			verb, path, lines := checkRequest(g, "shop", "GET", target, "192.0.2.7")
			if g.name == "envoy" {
				continue // net/http refuses such targets itself, apart from the last one
			}
			r := l.do(verb, path, "", lines...)
			if p := r.object(t); r.StatusCode != g.invalid || p["error"] != "invalid_request" {
				t.Errorf("%s %.10q: status %d, want %d, %v", g.name, target, r.StatusCode, g.invalid, p)
			}
		}
		verb, path, lines := checkRequest(g, "nowhere", "GET", "/login", "192.0.2.7")
		if r := l.do(verb, path, "", lines...); r.StatusCode != 503 || !strings.Contains(r.text, "unknown domain") {
			t.Errorf("%s unknown domain: %d %s, want 503", g.name, r.StatusCode, r.text)
		}
	}
}

// Only trusted proxies may send check requests.
func TestCheck_UntrustedGateway(t *testing.T) {
	l := start(t, func(o *options.Options) { o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} })
	verb, path, lines := checkRequest(&gateways[2], "shop", "GET", "/login", "192.0.2.7")
	if r := l.do(verb, path, "", lines...); r.StatusCode != 400 || !strings.Contains(r.text, "127.0.0.1 is not in trusted-proxies") {
		t.Errorf("%d %s", r.StatusCode, r.text)
	}
}

// Flags of the decision are shown, and so are declared attributes.
func TestCheck_Decisions(t *testing.T) {
	l := start(t, func(o *options.Options) { o.EdgeAttributes = []string{"user=header:X-User"} })
	for _, c := range []struct{ path, decision, status string }{
		{"/trial", "allow", "200"},
		{"/trial", "shadow-deny", "200"},
		{"/hidden", "deny", "429"},
		{"/none", "allow", "200"},
	} {
		verb, path, lines := checkRequest(&gateways[2], "shop", "GET", c.path, "192.0.2.7")
		r := l.do(verb, path, "", append(lines, "X-User: ann")...)
		if got := r.Header.Get("X-RateLimit-Decision"); got != c.decision || !strings.HasPrefix(r.Status, c.status) {
			t.Errorf("%s: %s, decision %q, want %s %q; %s", c.path, r.Status, got, c.status, c.decision, r.text)
		}
	}
	if got := l.seen.all(); got != "/check/traefik 200,/check/traefik 200,/check/traefik 429,/check/traefik 200" {
		t.Errorf("observed %s", got)
	}
}

func TestNew_InvalidAttributes(t *testing.T) {
	o := options.Default()
	o.EdgeAttributes = []string{"user=nowhere"}
	store, err := options.New(o)
	if err != nil {
		return // the options refuse it already
	}
	if _, err := New(Config{Options: store}); err == nil || !strings.Contains(err.Error(), "edge-attributes") {
		t.Errorf("error %v, want one of the option", err)
	}
}

// With forwarded-header forwarded, the client address is in Forwarded, and X-Forwarded-For is ignored.
func TestCheck_Forwarded(t *testing.T) {
	l := start(t, func(o *options.Options) { o.ForwardedHeader = "forwarded" })
	for i, c := range []struct {
		line   string
		status int
	}{
		{"Forwarded: for=192.0.2.1;proto=https", 200},
		{`Forwarded: for=198.51.100.7, for="192.0.2.1:4711", for=127.0.0.1`, 200},
		{"Forwarded: for=192.0.2.1", 429},
		{"X-Other: a", 400},
	} {
		verb, path, lines := checkRequest(&gateways[2], "shop", "POST", "/login", fmt.Sprintf("192.0.2.%d", 50+i))
		if r := l.do(verb, path, "", append(lines, c.line)...); r.StatusCode != c.status {
			t.Errorf("%s: %d %s, want %d", c.line, r.StatusCode, r.text, c.status)
		}
	}
}
