package grpcedge

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/throttledhq/throttled/edge/decision"
	"github.com/throttledhq/throttled/options"
)

const authzRules = `
version: 1
domain: web
limits:
  login:
    when: {path: /login, method: POST}
    per: [ip]
    allow: 2 per minute
    algorithm: fixed
  ip:
    per: [ip]
    allow: 100 per hour
    algorithm: fixed
  user:
    when: {user: "*"}
    per: [user]
    allow: 3 per day
    algorithm: fixed
  key:
    when: {unverified.key: "*"}
    per: [unverified.key]
    allow: 4 per day
    algorithm: fixed
  account:
    when: {account: "*"}
    per: [account]
    allow: 5 per day
    algorithm: fixed
  host:
    when: {host: admin.example.com}
    allow: none
---
version: 1
domain: trial
limits:
  trial:
    per: [ip]
    allow: 1 per minute
    algorithm: fixed
    shadow: true
  cost:
    per: [ip]
    allow: 10 per minute
    algorithm: fixed
`

// newAuthz returns a client of the authorization service.
func newAuthz(t *testing.T) (*lab, auth.AuthorizationClient) {
	t.Helper()
	l := newLab(t, authzRules, func(o *options.Options) {
		o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")}
		o.EdgeAttributes = []string{"user=verified:header:X-User", "key=header:X-Api-Key", "account=metadata:envoy.filters.http.jwt_authn:jwt_payload.sub"}
	})
	return l, auth.NewAuthorizationClient(l.dial())
}

// original is a request that Envoy has received.
type original struct {
	ip, method, target, host string
	domain, cost             string
	headers                  map[string]string
	raw                      bool // headers are in a list
	repeated                 bool // each header is twice in the list
	connection               bool // of the network filter
	pipe                     bool
}

func (o original) check() *auth.CheckRequest {
	a := &auth.AttributeContext{ContextExtensions: map[string]string{}, Source: &auth.AttributeContext_Peer{Address: socketAddress(o.ip)}}
	if o.pipe {
		a.Source.Address = &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: "@envoy"}}}
	}
	if o.domain != "" {
		a.ContextExtensions["domain"] = o.domain
	}
	if o.cost != "" {
		a.ContextExtensions["cost"] = o.cost
	}
	if o.connection {
		return &auth.CheckRequest{Attributes: a}
	}
	h := &auth.AttributeContext_HttpRequest{Method: o.method, Path: o.target, Host: o.host, Headers: o.headers}
	if o.raw {
		h.Headers, h.HeaderMap = nil, &corev3.HeaderMap{}
		for name, value := range o.headers {
			line := &corev3.HeaderValue{Key: name, RawValue: []byte(value)}
			h.HeaderMap.Headers = append(h.HeaderMap.Headers, line)
			if o.repeated {
				h.HeaderMap.Headers = append(h.HeaderMap.Headers, line)
			}
		}
	}
	a.Request = &auth.AttributeContext_Request{Http: h}
	return &auth.CheckRequest{Attributes: a}
}

func socketAddress(ip string) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: ip}}}
}

// shownAuthz returns the status and the headers of a response as text.
func shownAuthz(r *auth.CheckResponse) string {
	list := r.GetOkResponse().GetResponseHeadersToAdd()
	text := "200"
	if d := r.GetDeniedResponse(); d != nil {
		list = d.GetHeaders()
		text = d.GetStatus().GetCode().String()
	}
	for _, o := range list {
		if name := o.GetHeader().GetKey(); name == "X-RateLimit-Remaining" || name == decisionHeader || name == "Retry-After" {
			text += " " + o.GetHeader().GetValue()
		}
	}
	return text
}

// TestCheck checks sequences of authorization requests, each with a new server.
func TestCheck(t *testing.T) {
	login := original{ip: "192.0.2.1", method: "POST", target: "/login?x=1", host: "www.example.com", domain: "web"}
	with := func(o original, change func(*original)) original { change(&o); return o }
	for _, tt := range []struct {
		name  string
		times int
		ask   original
		want  string // the last response
	}{
		{"admitted", 2, login, "200 0 allow"},
		{"refused", 3, login, "TooManyRequests 0 40 deny"},
		{"another path", 3, with(login, func(o *original) { o.target = "/other" }), "200 97 allow"},
		{"another spelling of the path", 3, with(login, func(o *original) { o.target = "//x/..//%6Cogin/;v=1?y" }), "TooManyRequests 0 40 deny"},
		{"another method", 3, with(login, func(o *original) { o.method = "GET" }), "200 97 allow"},
		{"an IPv6 address", 3, with(login, func(o *original) { o.ip = "2001:db8::1" }), "TooManyRequests 0 40 deny"},
		{"host", 1, with(login, func(o *original) { o.host = "Admin.Example.com:8080" }), "TooManyRequests 0 deny"},
		{"a header that is declared", 4, with(login, func(o *original) { o.target, o.headers = "/", map[string]string{"x-user": "ann"} }), "TooManyRequests 0 86380 deny"},
		{"raw headers", 4, with(login, func(o *original) { o.target, o.raw, o.headers = "/", true, map[string]string{"x-user": "ann"} }), "TooManyRequests 0 86380 deny"},
		{"a header that is not verified", 5, with(login, func(o *original) { o.target, o.headers = "/", map[string]string{"x-api-key": "k"} }), "TooManyRequests 0 86380 deny"},
		{"a spoofed address", 3, with(login, func(o *original) { o.headers = map[string]string{"x-forwarded-for": "198.51.100.7"} }), "TooManyRequests 0 40 deny"},
		{"a connection through a pipe", 3, with(login, func(o *original) {
			o.pipe, o.headers = true, map[string]string{"x-forwarded-for": "198.51.100.7, 10.0.0.1"}
		}), "TooManyRequests 0 40 deny"},
		{"a connection", 1, with(login, func(o *original) { o.connection = true }), "200 99 allow"},
		{"cost", 1, with(login, func(o *original) { o.domain, o.cost = "trial", "7" }), "200 3 shadow-deny"},
		{"shadow", 2, with(login, func(o *original) { o.domain = "trial" }), "200 8 shadow-deny"},
		{"an invalid escape", 1, with(login, func(o *original) { o.target = "/%zz" }), "BadRequest error"},
		{"an invalid host", 1, with(login, func(o *original) { o.host = "a b" }), "BadRequest error"},
		{"a verified header that is repeated", 1, with(login, func(o *original) { o.raw, o.repeated, o.headers = true, true, map[string]string{"x-user": "ann"} }), "BadRequest error"},
		{"another header that is repeated", 1, with(login, func(o *original) { o.raw, o.repeated, o.headers = true, true, map[string]string{"x-api-key": "k"} }), "200 1 allow"},
		{"a long path", 1, with(login, func(o *original) { o.target = "/" + strings.Repeat("x", 5000) }), "BadRequest error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, client := newAuthz(t)
			var got string
			for range tt.times {
				r, err := client.Check(context.Background(), tt.ask.check())
				if err != nil {
					t.Fatal(err)
				}
				got = shownAuthz(r)
			}
			if got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// TestCheck_TrustedProxies checks that the addresses behind trusted proxies are counted separately.
func TestCheck_TrustedProxies(t *testing.T) {
	_, client := newAuthz(t)
	for _, tt := range []struct{ peer, forwarded, want string }{
		{"10.0.0.9", "1.1.1.1, 192.0.2.1, 10.0.0.1", "200 1 allow"},
		{"10.0.0.9", "2.2.2.2, 192.0.2.1", "200 0 allow"},
		{"192.0.2.1", "3.3.3.3", "TooManyRequests 0 40 deny"},
		{"10.0.0.9", "192.0.2.2", "200 1 allow"},
	} {
		o := original{ip: tt.peer, method: "POST", target: "/login", domain: "web", headers: map[string]string{"x-forwarded-for": tt.forwarded}}
		r, err := client.Check(context.Background(), o.check())
		if err != nil || shownAuthz(r) != tt.want {
			t.Errorf("%s, %s: %s, %v; want %s", tt.peer, tt.forwarded, shownAuthz(r), err, tt.want)
		}
	}
}

// TestCheck_Forwarded checks that only the header of the option forwarded-header is read.
func TestCheck_Forwarded(t *testing.T) {
	l := newLab(t, authzRules, func(o *options.Options) {
		o.TrustedProxies, o.ForwardedHeader = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, "forwarded"
	})
	client := auth.NewAuthorizationClient(l.dial())
	for i, want := range []string{"200 1 allow", "200 0 allow", "TooManyRequests 0 40 deny"} {
		forged := map[string]string{"forwarded": "for=192.0.2.1", "x-forwarded-for": fmt.Sprintf("192.0.2.%d", 10+i)}
		o := original{ip: "10.0.0.9", method: "POST", target: "/login", domain: "web", headers: forged}
		r, err := client.Check(context.Background(), o.check())
		if err != nil || shownAuthz(r) != want {
			t.Errorf("request %d: %s, %v; want %s", i, shownAuthz(r), err, want)
		}
	}
}

// TestCheck_Metadata checks that claims in the metadata of jwt_authn are attributes.
func TestCheck_Metadata(t *testing.T) {
	_, client := newAuthz(t)
	for _, tt := range []struct {
		sub  any
		want string
	}{{"ann", "200 4 allow"}, {"ann", "200 3 allow"}, {"bob", "200 4 allow"}, {17.0, "200 4 allow"}, {1e21, "200 4 allow"}, {true, "200 4 allow"}, {nil, "200 93 allow"}, {[]any{"ann"}, "200 92 allow"}} {
		check := original{ip: "192.0.2.1", method: "GET", target: "/", domain: "web"}.check()
		payload, err := structpb.NewStruct(map[string]any{"jwt_payload": map[string]any{"sub": tt.sub}})
		if err != nil {
			t.Fatal(err)
		}
		check.Attributes.MetadataContext = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"envoy.filters.http.jwt_authn": payload}}
		r, err := client.Check(context.Background(), check)
		if err != nil || shownAuthz(r) != tt.want {
			t.Errorf("%v: %s, %v; want %s", tt.sub, shownAuthz(r), err, tt.want)
		}
	}
	object := structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"b": structpb.NewStringValue("part"), "c": structpb.NewStringValue("nested")}})
	fields := map[string]*structpb.Value{"a.b": structpb.NewStringValue("whole"), "a": object}
	find := metadataFinder(&corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"n": {Fields: fields}}})
	for path, want := range map[string]string{"a.b": "whole", "a.c": "nested", "a": "", "a.d": "", "x.y.z": "", "": ""} {
		if got := find("n", path); got != want {
			t.Errorf("path %q: %q, want %q", path, got, want)
		}
	}
}

// TestCheck_Response checks all parts of the responses.
func TestCheck_Response(t *testing.T) {
	_, client := newAuthz(t)
	check := original{ip: "192.0.2.1", method: "POST", target: "/login", domain: "web"}.check()
	r, err := client.Check(context.Background(), check)
	if err != nil {
		t.Fatal(err)
	}
	if ok := r.GetOkResponse(); r.GetStatus().GetCode() != int32(codes.OK) || ok == nil || len(ok.GetHeaders()) > 0 || len(ok.GetHeadersToRemove()) > 0 {
		t.Errorf("the response to an admitted request is %v; want that the request is not changed", r)
	}
	check.Attributes.ContextExtensions["cost"] = "2"
	if r, err = client.Check(context.Background(), check); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, o := range r.GetDeniedResponse().GetHeaders() {
		lines = append(lines, o.GetHeader().GetKey()+": "+o.GetHeader().GetValue())
		if o.GetAppendAction() != corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD {
			t.Errorf("%v is appended, want that it replaces another value", o)
		}
	}
	want := []string{`RateLimit-Policy: "login";q=2;w=60, "ip";q=100;w=3600`, `RateLimit: "login";r=1;t=40`, "X-RateLimit-Limit: 2", "X-RateLimit-Remaining: 1", "X-RateLimit-Reset: 40",
		"Retry-After: 40", "X-RateLimit-Decision: deny", "Content-Type: application/problem+json", "Cache-Control: no-store"}
	if !slices.Equal(lines, want) || r.GetStatus().GetCode() != int32(codes.PermissionDenied) {
		t.Errorf("a refusal has status %v and the headers\n%s\nwant\n%s", r.GetStatus(), strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	var problem struct {
		Status   int
		Error    string
		Violated []string `json:"violated-policies"`
	}
	if err := json.Unmarshal([]byte(r.GetDeniedResponse().GetBody()), &problem); err != nil || problem.Status != 429 || problem.Error != "rate_limited" || !slices.Equal(problem.Violated, []string{"login"}) {
		t.Errorf("the body is %s, %v", r.GetDeniedResponse().GetBody(), err)
	}
}

// TestCheck_Errors checks requests that are errors: those of a gateway that is not configured correctly.
func TestCheck_Errors(t *testing.T) {
	l, client := newAuthz(t)
	good := original{ip: "192.0.2.1", method: "GET", target: "/", domain: "web"}
	for _, tt := range []struct {
		name    string
		request *auth.CheckRequest
		message string
	}{
		{"empty", &auth.CheckRequest{}, "no domain"},
		{"no domain", original{ip: "192.0.2.1", method: "GET", target: "/"}.check(), "context_extensions"},
		{"no source", &auth.CheckRequest{Attributes: &auth.AttributeContext{ContextExtensions: map[string]string{"domain": "web"}}}, "no address"},
		{"no address", original{ip: "envoy", domain: "web"}.check(), "no address"},
		{"cost 0", original{ip: "192.0.2.1", domain: "web", cost: "0"}.check(), "cost must be an integer"},
		{"negative cost", original{ip: "192.0.2.1", domain: "web", cost: "-1"}.check(), "cost must be an integer"},
		{"cost is a word", original{ip: "192.0.2.1", domain: "web", cost: "many"}.check(), "cost must be an integer"},
		{"unknown domain", original{ip: "192.0.2.1", domain: "unknown"}.check(), "domain"},
	} {
		_, err := client.Check(context.Background(), tt.request)
		if s := status.Convert(err); s.Code() != codes.InvalidArgument || !strings.Contains(s.Message(), tt.message) {
			t.Errorf("%s: %v, want InvalidArgument with %q", tt.name, err, tt.message)
		}
	}
	if r, err := client.Check(context.Background(), good.check()); err != nil || shownAuthz(r) != "200 99 allow" {
		t.Errorf("a valid request: %s, %v", shownAuthz(r), err)
	}
	config := l.config
	config.Checker = decision.New(func() decision.Runner { return brokenRunner{"-LOADING no leader\r\n"} })
	conn := (&lab{t: t, config: config}).serveConfig()
	if _, err := auth.NewAuthorizationClient(conn).Check(context.Background(), good.check()); status.Code(err) != codes.Unavailable {
		t.Errorf("without a leader: %v, want Unavailable", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := (&authorization{core: l.server.core}).Check(ctx, good.check()); status.Code(err) != codes.Canceled {
		t.Errorf("a canceled request: %v", err)
	}
}
