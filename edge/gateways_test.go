package edge

import (
	"strings"
	"testing"
)

// forwarded are the headers of the gateways that set X-Forwarded-*.
var forwarded = []string{"X-Forwarded-Method: POST", "X-Forwarded-Uri: /a//b?q=1", "X-Forwarded-Host: Shop.Example:443", "X-Forwarded-For: 192.0.2.7"}

// original are the headers of nginx.
var original = []string{"X-Original-Method: POST", "X-Original-URI: /a//b?q=1", "X-Forwarded-Host: Shop.Example:443", "X-Forwarded-For: 192.0.2.7"}

func TestCheck_Gateways(t *testing.T) {
	const want = "CL.CHECK shop MS -- method POST path /a/b host shop.example ip 192.0.2.7"
	for _, c := range []struct {
		target  string
		headers []string
		want    string
	}{
		{"/check/nginx/shop", original, want},
		{"/check/traefik/shop", forwarded, want},
		{"/check/caddy/shop", forwarded, want},
		{"/check/haproxy/shop", forwarded, want},
		{"/check/apisix/shop", forwarded, want},
		{"/check/envoy/shop/a//b?q=1", []string{"X-Forwarded-For: 192.0.2.7"}, "CL.CHECK shop MS -- method GET path /a/b host localhost ip 192.0.2.7"},
		{"/check/envoy/shop", []string{"X-Forwarded-For: 192.0.2.7"}, "CL.CHECK shop MS -- method GET path / host localhost ip 192.0.2.7"},
		{"/check/envoy/shop/check/nginx/x", []string{"X-Forwarded-For: 192.0.2.7"}, "CL.CHECK shop MS -- method GET path /check/nginx/x host localhost ip 192.0.2.7"},
		// A client can set these; the gateway does not overwrite them.
		{"/check/nginx/shop?domain=other&cost=0", append([]string{"X-Forwarded-Uri: /free", "X-Original-URL: /free", "X-Forwarded-Method: HEAD", "X-Real-IP: 198.51.100.1"}, original...), want},
		{"/check/traefik/shop", append([]string{"X-Original-URI: /free", "X-Original-Method: HEAD", "X-HTTP-Method-Override: HEAD", "Forwarded: for=198.51.100.1"}, forwarded...), want},
		{"/check/envoy/shop/a", []string{"X-Forwarded-For: 192.0.2.7", "X-Forwarded-Uri: /free", "X-Original-URI: /free", "X-Envoy-Original-Path: /free"}, "CL.CHECK shop MS -- method GET path /a host localhost ip 192.0.2.7"},
	} {
		t.Run(c.target, func(t *testing.T) {
			f := newFake(t, nil)
			response, body := f.get(t, c.target, c.headers...)
			if response.StatusCode != 200 || body != "" {
				t.Errorf("status %d, body %q, want 200 without a body", response.StatusCode, body)
			}
			if got := strings.Join(f.commands, "\n"); got != c.want {
				t.Errorf("commands %q, want %q", got, c.want)
			}
		})
	}
}

// The client has the right-most address that no trusted proxy has.
func TestCheck_TrustedProxies(t *testing.T) {
	f := newFake(t, func(f *fake) { f.options.TrustedProxies = append(f.options.TrustedProxies, mustNetwork("10.0.0.0/8")) })
	for _, c := range []struct{ lines, want string }{
		{"X-Forwarded-For: 198.51.100.1, 192.0.2.7, 10.1.2.3", "192.0.2.7"},
		{"X-Forwarded-For: 198.51.100.1\r\nX-Forwarded-For: 192.0.2.7\r\nX-Forwarded-For: 10.9.9.9", "192.0.2.7"},
		{"X-Forwarded-For: 2001:db8::1", "2001:db8::1"},
		{"X-Forwarded-For: ::ffff:192.0.2.7", "192.0.2.7"},
	} {
		f.commands = nil
		f.get(t, "/check/envoy/shop/a", c.lines)
		if got := strings.Join(f.commands, "\n"); !strings.HasSuffix(got, " ip "+c.want) {
			t.Errorf("%q: %q, want the address %s", c.lines, got, c.want)
		}
	}
}

func TestCheck_Attributes(t *testing.T) {
	f := newFake(t, func(f *fake) {
		f.options.EdgeAttributes = []string{"user=verified:header:X-User", "key=header:X-Key", "sid=cookie:sid"}
	})
	f.get(t, "/check/envoy/-/a", "X-Forwarded-For: 192.0.2.7")
	if len(f.commands) > 0 {
		t.Errorf("without a domain: %q, want no command", f.commands)
	}
	f.get(t, "/check/envoy/shop/a", "X-Forwarded-For: 192.0.2.7", "X-User: ann", "X-Key: k1", "Cookie: a=b; sid=s1")
	want := "CL.CHECK shop MS -- method GET path /a host localhost ip 192.0.2.7 user ann unverified.key k1 unverified.sid s1"
	if got := strings.Join(f.commands, "\n"); got != want {
		t.Errorf("commands %q, want %q", got, want)
	}
}

func TestCheck_EdgeDomain(t *testing.T) {
	f := newFake(t, func(f *fake) { f.options.EdgeDomain = "main" })
	for _, target := range []string{"/check/envoy/-/a", "/check/traefik", "/check/traefik/", "/check/traefik/-"} {
		f.commands = nil
		headers := forwarded
		if strings.Contains(target, "envoy") {
			headers = forwarded[3:]
		}
		f.get(t, target, headers...)
		if len(f.commands) != 1 || !strings.HasPrefix(f.commands[0], "CL.CHECK main ") {
			t.Errorf("%s: %q, want the domain main", target, f.commands)
		}
	}
}

// A refusal has the status that the gateway needs, and the headers for the client.
func TestCheck_Refused(t *testing.T) {
	f := newFake(t, func(f *fake) { f.reply = refused })
	for target, status := range map[string]int{"/check/nginx/shop": 403, "/check/traefik/shop": 429, "/check/caddy/shop": 429, "/check/haproxy/shop": 429, "/check/apisix/shop": 429, "/check/envoy/shop/a": 429} {
		headers := forwarded
		if strings.Contains(target, "nginx") {
			headers = original
		} else if strings.Contains(target, "envoy") {
			headers = forwarded[3:]
		}
		response, body := f.get(t, target, headers...)
		if response.StatusCode != status {
			t.Errorf("%s: status %d, want %d", target, response.StatusCode, status)
		}
		for name, want := range map[string]string{
			"Retry-After": "3", "X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "9", "RateLimit": `"login";r=0;t=3`, "RateLimit-Policy": `"login";q=5;w=60`,
			"X-RateLimit-Decision": "deny", "Content-Type": "application/problem+json", "Cache-Control": "no-store",
		} {
			if got := response.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", target, name, got, want)
			}
		}
		if !strings.Contains(body, `"error":"rate_limited"`) || !strings.Contains(body, `"retry_after_seconds":3`) || !strings.Contains(body, `"violated-policies":["login"]`) {
			t.Errorf("%s: body %s", target, body)
		}
	}
}

func TestCheck_Admitted(t *testing.T) {
	f := newFake(t, func(f *fake) { f.options.XRateLimitReset = "epoch"; f.options.RateLimitHeaders = []string{"ratelimit"} })
	response, _ := f.get(t, "/check/traefik/shop", forwarded...)
	if got := response.Header.Get("RateLimit"); got != `"login";r=4;t=2` {
		t.Errorf("RateLimit is %q", got)
	}
	if got, none := response.Header.Get("X-RateLimit-Decision"), response.Header.Get("X-RateLimit-Limit"); got != "allow" || none != "" {
		t.Errorf("decision %q, X-RateLimit-Limit %q, want allow and no limit", got, none)
	}
}

// Errors of the configuration of a gateway are errors of the server, so that the policy of the gateway applies. Invalid data
// of a client is refused.
func TestCheck_Errors(t *testing.T) {
	for _, c := range []struct {
		name, target string
		headers      []string
		change       func(f *fake)
		status       int
		word         string
	}{
		{"no header", "/check/traefik/shop", forwarded[1:], nil, 500, "gateway_configuration"},
		{"no address", "/check/envoy/shop/a", nil, nil, 500, "gateway_configuration"},
		{"repeated header", "/check/traefik/shop", append([]string{"X-Forwarded-Uri: /free"}, forwarded...), nil, 500, "gateway_configuration"},
		{"no domain", "/check/traefik/", forwarded, nil, 500, "no_domain"},
		{"no gateway", "/check/", nil, nil, 404, "not_found"},
		{"unknown gateway", "/check/kong/shop", forwarded, nil, 404, "not_found"},
		{"invalid path", "/check/envoy/shop/%zz", forwarded[3:], nil, 400, ""},
		{"invalid path of nginx", "/check/nginx/shop", []string{"X-Original-Method: GET", "X-Original-URI: /%00", "X-Forwarded-Host: a", "X-Forwarded-For: ::1"}, nil, 403, "invalid_request"},
		{"unavailable", "/check/traefik/shop", forwarded, func(f *fake) { f.reply = "-LOADING no leader\r\n" }, 503, "unavailable"},
		{"no rules", "/check/traefik/shop", forwarded, func(f *fake) { f.reply = "-ERR no rules are loaded\r\n" }, 500, "configuration"},
		{"broken", "/check/traefik/shop", forwarded, func(f *fake) { f.runError = errPassword }, 503, "unavailable"},
		{"no password", "/check/traefik/shop", forwarded, func(f *fake) { f.access.password = "secret" }, 401, "unauthorized"},
		{"password of a client", "/check/traefik/shop", append([]string{"Authorization: Bearer secret"}, forwarded...), func(f *fake) { f.access.password = "secret" }, 401, "unauthorized"},
		{"repeated password", "/check/traefik/shop", append([]string{"X-Throttled-Token: x", "X-Throttled-Token: secret"}, forwarded...), func(f *fake) { f.access.password = "secret" }, 401, "unauthorized"},
		{"protected mode", "/check/traefik/shop", forwarded, func(f *fake) { f.access.refused = true }, 403, "protected_mode"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t, c.change)
			response, body := f.get(t, c.target, c.headers...)
			if response.StatusCode != c.status || !strings.Contains(body, `"error":"`+c.word) && c.word != "" {
				t.Errorf("status %d, body %s; want %d, %s", response.StatusCode, body, c.status, c.word)
			}
			if got := response.Header.Get("X-RateLimit-Decision"); got != "error" && response.StatusCode != 400 {
				t.Errorf("X-RateLimit-Decision is %q, want error", got)
			}
		})
	}
}

func TestCheck_Password(t *testing.T) {
	f := newFake(t, func(f *fake) { f.access.password = "secret" })
	if response, body := f.get(t, "/check/traefik/shop", append([]string{"X-Throttled-Token: secret", "Authorization: Bearer of-a-client"}, forwarded...)...); response.StatusCode != 200 {
		t.Errorf("status %d, body %s, want 200", response.StatusCode, body)
	}
}
