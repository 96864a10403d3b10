package grpcedge

import (
	"context"
	"encoding/base64"
	"testing"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/throttledhq/throttled/edge/decision"
	"github.com/throttledhq/throttled/edge/edgetest"
	"github.com/throttledhq/throttled/options"
)

const usersRules = `version: 1
domain: shop
limits: {all: {allow: 100 per hour}}
---
version: 1
domain: other
limits: {all: {allow: 100 per hour}}
`

// run runs a command on the server that decides, as an administrator.
func (l *lab) run(words ...string) {
	l.t.Helper()
	edgetest.Run(l.t, l.limiter.NewCaller(), words...)
}

// Calls have the permissions of the user whose credentials they have. Changes of users affect connections on which
// credentials have been checked.
func TestUsers(t *testing.T) {
	l := newLab(t, usersRules, func(o *options.Options) { o.RequirePass, o.AuthFailuresPerMinute = "secret", 0 })
	l.run("ACL", "SETUSER", "gate", "on", ">gate-pw", "+cl.check", "domain:shop")
	l.run("ACL", "SETUSER", "app", "on", ">app-pw", "+cl.throttle", "~app:*")
	client, authorizer := l.client(), auth.NewAuthorizationClient(l.dial())
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("gate:gate-pw"))
	for _, c := range []struct {
		change        []string
		authorization string
		domain        string
		want          codes.Code
	}{
		{nil, basic, "shop", codes.OK},
		{nil, "Bearer gate:gate-pw", "shop", codes.OK},
		{nil, "Bearer gate:gate-pw", "other", codes.PermissionDenied},
		{nil, "Bearer secret", "other", codes.OK},
		{nil, "Bearer app:app-pw", "shop", codes.PermissionDenied},
		{nil, "Bearer app:wrong", "shop", codes.Unauthenticated},
		{nil, "Bearer gate-pw", "shop", codes.Unauthenticated},
		{[]string{"ACL", "SETUSER", "gate", "alldomains"}, basic, "other", codes.OK},
		{[]string{"ACL", "SETUSER", "gate", "off"}, basic, "shop", codes.Unauthenticated},
		{[]string{"ACL", "SETUSER", "gate", "on"}, basic, "shop", codes.OK},
		{[]string{"ACL", "SETUSER", "gate", "resetpass"}, basic, "shop", codes.Unauthenticated},
		{[]string{"ACL", "DELUSER", "gate"}, "Bearer gate:gate-pw", "shop", codes.Unauthenticated},
	} {
		if c.change != nil {
			l.run(c.change...)
		}
		ctx := metadata.AppendToOutgoingContext(context.Background(), "authorization", c.authorization)
		if _, err := client.ShouldRateLimit(ctx, request(c.domain, entries("k", "v"))); status.Code(err) != c.want {
			t.Errorf("after %q, %s in domain %s: %v, want %v", c.change, c.authorization, c.domain, err, c.want)
		}
		if _, err := authorizer.Check(ctx, original{ip: "192.0.2.1", method: "GET", target: "/", host: "a.example", domain: c.domain}.check()); status.Code(err) != c.want {
			t.Errorf("after %q, authorization by %s in domain %s: %v, want %v", c.change, c.authorization, c.domain, err, c.want)
		}
	}
}

// Without a password of the user "default", calls without credentials have its permissions.
func TestUsers_OpenDefault(t *testing.T) {
	l := newLab(t, usersRules, func(o *options.Options) { o.AuthFailuresPerMinute = 0 })
	l.run("ACL", "SETUSER", "app", "on", ">app-pw", "+cl.throttle", "~app:*")
	client := l.client()
	for authorization, want := range map[string]codes.Code{
		"": codes.OK, "Bearer any": codes.OK, "Digest x": codes.OK,
		"Bearer app:app-pw": codes.PermissionDenied, "Bearer app:wrong": codes.Unauthenticated,
	} {
		ctx := context.Background()
		if authorization != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", authorization)
		}
		if _, err := client.ShouldRateLimit(ctx, request("shop", entries("k", "v"))); status.Code(err) != want {
			t.Errorf("%q: %v, want %v", authorization, err, want)
		}
	}
}

// Error replies are converted to statuses.
func TestStatusOf(t *testing.T) {
	for code, want := range map[string]codes.Code{
		"NOAUTH": codes.Unauthenticated, "NOPERM": codes.PermissionDenied, "ERR": codes.InvalidArgument, "WRONGTYPE": codes.InvalidArgument,
		"CLUSTERDOWN": codes.Unavailable, "BUSY": codes.Unavailable, "LOADING": codes.Unavailable, "OOM": codes.Unavailable,
	} {
		if got := status.Code(statusOf(&decision.Error{Code: code, Message: "text"})); got != want {
			t.Errorf("%s: %v, want %v", code, got, want)
		}
	}
}
