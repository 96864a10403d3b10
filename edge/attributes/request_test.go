package attributes

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"testing"
)

func mustSources(t testing.TB, words ...string) *Sources {
	t.Helper()
	s, err := ParseSources(words)
	if err != nil {
		t.Fatalf("ParseSources(%q): %v", words, err)
	}
	return s
}

// payload returns an encoded payload.
func payload(json string) string { return base64.RawURLEncoding.EncodeToString([]byte(json)) }

func TestAppend(t *testing.T) {
	r := Request{Method: "GET", Target: "//api/?q", Host: "Shop.Example:443", IP: netip.MustParseAddr("::ffff:192.0.2.1")}
	want := []string{"before", "x", "method", "GET", "path", "/api", "host", "shop.example", "ip", "192.0.2.1"}
	if got, err := (*Sources)(nil).Append([]string{"before", "x"}, &r); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("attributes %q, error %v; want %q", got, err, want)
	}
	if got, err := (&Sources{}).Append(nil, &Request{}); err != nil || !reflect.DeepEqual(got, []string{"path", "/"}) {
		t.Errorf("attributes of an empty request: %q, error %v", got, err)
	}
}

func TestAppend_Host(t *testing.T) {
	for host, want := range map[string]string{"": "", "a.example": "a.example", "A.Example.": "a.example", "a.example.:80": "a.example", "a:80": "a",
		"[2001:DB8::1]:443": "2001:db8::1", "[::1]": "::1", "192.0.2.1:8080": "192.0.2.1", "xn--bcher-kva.example": "xn--bcher-kva.example"} {
		if got, err := normalizeHost(host); got != want || err != nil {
			t.Errorf("normalizeHost(%q): %q, %v; want %q", host, got, err, want)
		}
	}
	for _, host := range []string{"a b", "a/b", `a\b`, "a@b", "a?b", "a#b", "a,b", "bücher.example", "a\x00", strings.Repeat("a", 256)} {
		if got, err := normalizeHost(host); !errors.Is(err, ErrRequest) {
			t.Errorf("normalizeHost(%q): %q, %v; want an error", host, got, err)
		}
	}
}

func TestAppend_Sources(t *testing.T) {
	words := []string{"user=verified:header:X-User", "key=header:X-Api-Key", "sid=cookie:sid", "sid=verified:cookie:sid",
		"sub=jwt:X-Jwt:sub", "plan=jwt:X-Jwt:org.plan"}
	claims := payload(`{"sub":"ann","org":{"plan":"pro"}}`)
	long := strings.Repeat("k", MaxValue+1)
	for name, c := range map[string]struct {
		header http.Header
		want   []string
	}{
		"absent":         {http.Header{}, nil},
		"empty":          {http.Header{"X-User": {""}, "X-Api-Key": {" "}, "Cookie": {"sid=; a=b"}, "X-Jwt": {""}}, nil},
		"header":         {http.Header{"X-User": {" ann\t"}}, []string{"user", "ann"}},
		"unverified":     {http.Header{"X-Api-Key": {"k1", "k2"}}, []string{"unverified.key", "k1"}},
		"longest value":  {http.Header{"X-User": {long[1:]}}, []string{"user", long[1:]}},
		"hash":           {http.Header{"X-Api-Key": {long}}, []string{"unverified.key", "sha256:011cc8dcade24f43d2d7f95605d8481da1d0b86475def49be02bfc20cee86e65"}},
		"cookie":         {http.Header{"Cookie": {"a=1; sid=abc ;b=2"}}, []string{"unverified.sid", "abc", "sid", "abc"}},
		"quoted cookie":  {http.Header{"Cookie": {`sid="abc"`}}, []string{"unverified.sid", "abc", "sid", "abc"}},
		"equals sign":    {http.Header{"Cookie": {`sid=a=b==`}}, []string{"unverified.sid", "a=b==", "sid", "a=b=="}},
		"second line":    {http.Header{"Cookie": {"a=1", "sid=abc"}}, []string{"unverified.sid", "abc", "sid", "abc"}},
		"similar names":  {http.Header{"Cookie": {"xsid=1; SID=2; sidx=3; sid"}}, nil},
		"payload":        {http.Header{"X-Jwt": {claims}}, []string{"sub", "ann", "plan", "pro"}},
		"padded payload": {http.Header{"X-Jwt": {payload(`{"sub":"ann"} `) + "=="}}, []string{"sub", "ann"}},
		"token":          {http.Header{"X-Jwt": {"e30." + claims + ".c2ln"}}, []string{"sub", "ann", "plan", "pro"}},
		"bearer token":   {http.Header{"X-Jwt": {"bearer  e30." + claims + "."}}, []string{"sub", "ann", "plan", "pro"}},
		"other scheme":   {http.Header{"X-Jwt": {"Basic YTpi"}}, nil},
		"no claims":      {http.Header{"X-Jwt": {payload(`{}`)}}, nil},
	} {
		got, err := mustSources(t, words...).Append(nil, &Request{Target: "/", Header: c.header.Values})
		if want := append([]string{"path", "/"}, c.want...); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: attributes %q, error %v; want %q", name, got, err, want)
		}
	}
}

func TestAppend_Errors(t *testing.T) {
	words := []string{"user=verified:header:X-User", "sid=verified:cookie:sid", "sub=jwt:X-Jwt:sub"}
	long := strings.Repeat("k", MaxValue+1)
	for name, c := range map[string]struct {
		request Request
		is      error
		want    string
	}{
		"path":            {Request{Target: "/%"}, ErrRequest, `invalid request: the path has the invalid escape "%"; encode a percent sign as %25`},
		"host":            {Request{Host: "a b"}, ErrRequest, `invalid request: "a b" is not a host`},
		"method":          {Request{Method: long}, ErrRequest, "invalid request: the method has 1025 bytes; at most 1024 are allowed"},
		"repeated header": {with("X-User", "a", "a"), ErrGateway, "attribute user: gateway is not configured correctly: the header X-User is repeated; configure the gateway to replace the header of the client"},
		"repeated cookie": {with("Cookie", "sid=a; sid=a"), ErrRequest, "attribute sid: invalid request: the cookie sid is repeated"},
		"cookie lines":    {with("Cookie", "sid=a", "sid=b"), ErrRequest, "attribute sid: invalid request: the cookie sid is repeated"},
		"long value":      {with("X-User", long), ErrRequest, "attribute user: invalid request: the value has 1025 bytes; at most 1024 are allowed"},
		"repeated token":  {with("X-Jwt", "e30", "e30"), ErrGateway, "attribute sub: gateway is not configured correctly: the header X-Jwt is repeated; configure the gateway to replace the header of the client"},
		"two parts":       {with("X-Jwt", "e30.e30"), ErrRequest, `attribute sub: invalid request: the header X-Jwt has no token; a token has the form "a.b.c", or is the payload only`},
		"encrypted":       {with("X-Jwt", "e30.a.b.c.d"), ErrRequest, `attribute sub: invalid request: the header X-Jwt has no token; a token has the form "a.b.c", or is the payload only`},
		"not encoded":     {with("X-Jwt", "{}"), ErrRequest, "attribute sub: invalid request: the header X-Jwt has a token that is not base64url"},
		"not JSON":        {with("X-Jwt", payload("a")), ErrRequest, "attribute sub: invalid request: the header X-Jwt has a token whose payload is not a JSON object"},
		"no object":       {with("X-Jwt", payload(`["sub"]`)), ErrRequest, "attribute sub: invalid request: the header X-Jwt has a token whose payload is not a JSON object"},
		"null":            {with("X-Jwt", payload("null")), ErrRequest, "attribute sub: invalid request: the header X-Jwt has a token whose payload is not a JSON object"},
		"list":            {with("X-Jwt", payload(`{"sub":["a"]}`)), ErrGateway, "attribute sub: gateway is not configured correctly: the claim sub is an object or a list; declare a claim that is a string, a number or a boolean"},
	} {
		if c.request.Header == nil {
			c.request.Header = http.Header{}.Values
		}
		got, err := mustSources(t, words...).Append([]string{"x", "y"}, &c.request)
		if !errors.Is(err, c.is) || err.Error() != c.want || len(got) != 2 {
			t.Errorf("%s: attributes %q\nerror %v,\nwant  %s", name, got, err, c.want)
		}
	}
}

// with returns a request with a header.
func with(name string, lines ...string) Request {
	return Request{Header: http.Header{name: lines}.Values}
}

func TestAppend_Allocations(t *testing.T) {
	s := mustSources(t, "user=verified:header:X-User", "sid=cookie:sid")
	header := http.Header{"X-User": {"ann"}, "Cookie": {"a=b; sid=abc"}}
	r := Request{Method: "GET", Target: "/api/orders?page=2", Host: "shop.example:443", Header: header.Values}
	pairs := make([]string, 0, 16)
	for ip, most := range map[netip.Addr]float64{{}: 0, netip.MustParseAddr("192.0.2.1"): 1} { // the text of the address
		r.IP = ip
		if n := testing.AllocsPerRun(100, func() { _, _ = s.Append(pairs, &r) }); n > most {
			t.Errorf("%v allocations with the address %s, want %v", n, ip, most)
		}
	}
}

func FuzzAppend(f *testing.F) {
	f.Add("shop.example:80", "a=b; sid=c", "e30."+payload(`{"sub":1,"org":{"plan":true}}`)+".x")
	f.Add("[::1]", `sid="a"; sid=b`, payload(`{"org.plan":"x"}`))
	f.Add("a.", ";;=;sid", "Bearer ..")
	s := mustSources(f, "sid=cookie:sid", "sub=jwt:X-Jwt:sub", "plan=jwt:X-Jwt:org.plan")
	f.Fuzz(func(t *testing.T, host, cookie, jwt string) {
		header := http.Header{"Cookie": {cookie}, "X-Jwt": {jwt}}
		pairs, err := s.Append(nil, &Request{Host: host, Header: header.Values})
		if err != nil {
			if !errors.Is(err, ErrRequest) && !errors.Is(err, ErrGateway) || len(pairs) > 0 {
				t.Errorf("attributes %q, error %v", pairs, err)
			}
			return
		}
		seen := map[string]bool{}
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i+1] == "" || len(pairs[i+1]) > MaxValue || seen[pairs[i]] {
				t.Errorf("attribute %s with %d bytes", pairs[i], len(pairs[i+1]))
			}
			seen[pairs[i]] = true
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	claims := payload(`{"sub":"ann","iss":"https://id.example","aud":"shop","exp":1900000000,"org":{"plan":"pro"}}`)
	header := http.Header{"X-User": {"ann"}, "Cookie": {"a=b; sid=abc"}, "X-Jwt": {claims}}
	r := Request{Method: "GET", Target: "/api/orders?page=2", Host: "shop.example:443", IP: netip.MustParseAddr("192.0.2.1"), Header: header.Values}
	for name, words := range map[string][]string{"plain": nil, "headers": {"user=verified:header:X-User", "sid=cookie:sid"}, "token": {"sub=jwt:X-Jwt:sub", "plan=jwt:X-Jwt:org.plan"}} {
		s, pairs := mustSources(b, words...), make([]string, 0, 16)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Append(pairs, &r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
