package middleware

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

var testProxies = Proxies{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}}

func TestProxies(t *testing.T) {
	for _, c := range []struct {
		name, peer string
		forwarded  []string
		addr, key  string
	}{
		{"direct", "192.0.2.1:1234", nil, "192.0.2.1", "192.0.2.1"},
		{"a client that forges an entry", "192.0.2.1:1234", []string{"198.51.100.1"}, "192.0.2.1", "192.0.2.1"},
		{"one proxy", "10.0.0.1:1", []string{"192.0.2.1"}, "192.0.2.1", "192.0.2.1"},
		{"forged behind a proxy", "10.0.0.1:1", []string{"198.51.100.1, 192.0.2.1"}, "192.0.2.1", "192.0.2.1"},
		{"forged in another header", "10.0.0.1:1", []string{"198.51.100.1", "192.0.2.1"}, "192.0.2.1", "192.0.2.1"},
		{"forged as a proxy", "10.0.0.1:1", []string{"198.51.100.1, 10.9.9.9, 192.0.2.1"}, "192.0.2.1", "192.0.2.1"},
		{"two proxies", "10.0.0.1:1", []string{"192.0.2.1, 10.0.0.2"}, "192.0.2.1", "192.0.2.1"},
		{"two proxies, two headers", "10.0.0.1:1", []string{"192.0.2.1", "10.0.0.2"}, "192.0.2.1", "192.0.2.1"},
		{"only proxies", "10.0.0.1:1", []string{"10.0.0.3,10.0.0.2"}, "10.0.0.3", "10.0.0.3"},
		{"no header", "10.0.0.1:1", nil, "10.0.0.1", "10.0.0.1"},
		{"not an address", "10.0.0.1:1", []string{"192.0.2.1, unknown, 10.0.0.2"}, "10.0.0.2", "10.0.0.2"},
		{"empty header", "10.0.0.1:1", []string{""}, "10.0.0.1", "10.0.0.1"},
		{"empty entry", "10.0.0.1:1", []string{"192.0.2.1,"}, "10.0.0.1", "10.0.0.1"},
		{"port", "10.0.0.1:1", []string{"192.0.2.1:4711"}, "192.0.2.1", "192.0.2.1"},
		{"IPv6", "[2001:db8:1:2:3::4]:5", nil, "2001:db8:1:2:3::4", "2001:db8:1:2::/64"},
		{"IPv6 proxy", "[fd00::1]:5", []string{"[2001:db8::1]:6"}, "2001:db8::1", "2001:db8::/64"},
		{"IPv6 in brackets", "[fd00::1]:5", []string{"[2001:db8::1]"}, "2001:db8::1", "2001:db8::/64"},
		{"mapped IPv4", "[::ffff:10.0.0.1]:5", []string{"::ffff:192.0.2.1"}, "192.0.2.1", "192.0.2.1"},
		{"zone", "[fe80::1%eth0]:5", nil, "fe80::1", "fe80::/64"},
		{"Unix socket", "@", nil, "invalid IP", "unknown"},
	} {
		r := &http.Request{RemoteAddr: c.peer, Header: http.Header{"X-Forwarded-For": c.forwarded}}
		if addr, key := testProxies.Addr(r).String(), testProxies.Key(r); addr != c.addr || key != c.key {
			t.Errorf("%s: got %s and %s, want %s and %s", c.name, addr, key, c.addr, c.key)
		}
	}
	if key := (Proxies{IPv6Bits: 48}).KeyOf(netip.MustParseAddr("2001:db8:1:2::3")); key != "2001:db8:1::/48" {
		t.Errorf("48 bits: %s", key)
	}
}

// FuzzProxies checks that the entries to the left of an entry that is not a trusted proxy do not affect the address.
func FuzzProxies(f *testing.F) {
	for _, forged := range []string{"", "192.0.2.9", "10.0.0.7", "unknown", "[::1", ", ,", "\"x\"", "10.0.0.1:"} {
		f.Add(forged)
	}
	f.Fuzz(func(t *testing.T, forged string) {
		want := netip.MustParseAddr("192.0.2.1")
		for _, values := range [][]string{{forged + ",192.0.2.1, 10.0.0.2"}, {forged, "192.0.2.1"}, {forged, forged + ", 192.0.2.1"}} {
			r := &http.Request{RemoteAddr: "10.0.0.1:80", Header: http.Header{"X-Forwarded-For": values}}
			if got := testProxies.Addr(r); got != want {
				t.Errorf("%q: got %v", values, got)
			}
		}
		r := &http.Request{RemoteAddr: "10.0.0.1:80", Header: http.Header{"X-Forwarded-For": {forged}}}
		if !testProxies.Addr(r).IsValid() {
			t.Errorf("%q: no address", forged)
		}
	})
}

func TestCleanPath(t *testing.T) {
	for path, want := range map[string]string{
		"": "/", "/": "/", "*": "/*", "/login": "/login", "/login/": "/login", "//login": "/login", "/a//b": "/a/b",
		"/./login": "/login", "/a/../login": "/login", "/../../login": "/login", "/login/.": "/login", "/a/..": "/",
		`/a\..\login`: "/login", "/login;v=1": "/login", "/a;x/../login;y/": "/login", "/;/login": "/login", "/..;/login": "/login",
		"/a%2fb": "/a%2fb", "/ä/ b": "/ä/ b", "/...": "/...",
	} {
		if got := cleanPath(path); got != want {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
}

func FuzzCleanPath(f *testing.F) {
	for _, path := range []string{"/login", "//a/../b;c", `\..\x`, "/..;/", "/%2e"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		clean := cleanPath(path)
		if again := cleanPath(clean); len(clean) < maxPath && again != clean || clean[0] != '/' {
			t.Errorf("%q: got %q, and of this %q", path, clean, again)
		}
	})
}

func request(t *testing.T, method, target string, header ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, target, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.RemoteAddr = "10.0.0.1:80"
	r.Header.Set("X-Forwarded-For", "2001:db8::1")
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func TestRules_Request(t *testing.T) {
	rules := Rules{
		Domain: "shop", Proxies: testProxies, Local: []Limit{PerMinute(5)},
		Attributes: []func(*http.Request) Attribute{
			Header("api_key", "X-Api-Key"),
			Verified("user", func(r *http.Request) string { return r.Header.Get("Test-Session") }),
		},
	}
	got := rules.Request(request(t, "POST", "http://Shop.Example:8080//login;x?ip=1.2.3.4", "X-Api-Key", "k1", "Test-Session", "ann"))
	want := []Attribute{{"method", "POST"}, {"path", "/login"}, {"host", "shop.example"}, {"ip", "2001:db8::1"},
		{"unverified.api_key", "k1"}, {"user", "ann"}}
	if got.Domain != "shop" || !slices.Equal(got.Attributes, want) {
		t.Errorf("got %+v", got)
	}
	if len(got.Limits) != 1 || got.Limits[0].Key != "http|default|gcra|1m|ip=2001:db8::/64" {
		t.Errorf("local limits: %+v", got.Limits)
	}
}

func TestHeader_Long(t *testing.T) {
	attribute := Header("key", "X-Key")
	for _, length := range []int{1024, 1025} {
		value := strings.Repeat("k", length)
		got := attribute(request(t, "GET", "/", "X-Key", value))
		if got.Name != "unverified.key" || (got.Value == value) != (length == 1024) || len(got.Value) > 1024 {
			t.Errorf("%d bytes: %+v", length, got)
		}
	}
	if path := cleanPath("/" + strings.Repeat("a/", 5000)); len(path) != 4096 {
		t.Errorf("the path has %d bytes", len(path))
	}
}

func TestHostName(t *testing.T) {
	for host, want := range map[string]string{"": "", "A.example": "a.example", "a.example.:80": "a.example", "[::1]:80": "::1", "[::1]": "[::1]"} {
		if got := hostName(host); got != want {
			t.Errorf("%q: got %q, want %q", host, got, want)
		}
	}
}

func TestLimits_Request(t *testing.T) {
	limits := PerIP(testProxies, PerMinute(600), Limit{Name: "day", Count: 10_000, Period: 24 * 3600e9, Algorithm: Fixed})
	keyedByHeader := limits.PerHeader("x-api-key", PerMinute(60))
	other := limits.Per("user", func(r *http.Request) string { return r.Header.Get("Test-Session") }, Limit{Key: "login", Count: 5, Period: 60e9})

	keys := func(l Limits, header ...string) (keys []string) {
		for _, limit := range l.Request(request(t, "GET", "/", header...)).Limits {
			keys = append(keys, limit.Key)
		}
		return keys
	}
	ip := []string{"http|default|gcra|1m|ip=2001:db8::/64", "http|day|fixed|1d|ip=2001:db8::/64"}
	if got := keys(limits, "X-Api-Key", "secret"); !slices.Equal(got, ip) {
		t.Errorf("by address: %q", got)
	}
	if got := keys(keyedByHeader); !slices.Equal(got, ip) {
		t.Errorf("without the header: %q", got)
	}
	if got := keys(keyedByHeader, "X-Api-Key", "secret"); !slices.Equal(got, append(slices.Clip(ip), "http|default|gcra|1m|X-Api-Key=K7gNU3sdo-OL0wNhqoVWhg")) {
		t.Errorf("by header: %q", got)
	}
	if got := keys(other, "Test-Session", "ann"); len(got) != 3 || got[2] != "login|default|gcra|1m|user="+hash("ann") {
		t.Errorf("by user: %q", got)
	}
}
