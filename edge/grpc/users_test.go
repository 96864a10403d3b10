package grpcedge

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

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

// A request for a domain that the rules do not have needs the same permissions as others, although no limit applies to it.
func TestUsers_UnknownDomain(t *testing.T) {
	l := newLab(t, usersRules, func(o *options.Options) { o.RequirePass, o.AuthFailuresPerMinute = "secret", 0 })
	l.run("ACL", "SETUSER", "gate", "on", ">gate-pw", "+cl.check", "domain:shop")
	l.run("ACL", "SETUSER", "all", "on", ">all-pw", "+cl.check", "alldomains")
	l.run("ACL", "SETUSER", "app", "on", ">app-pw", "+cl.throttle", "~app:*")
	client := l.client()
	for token, want := range map[string]codes.Code{
		"secret": codes.OK, "all:all-pw": codes.OK, "gate:gate-pw": codes.PermissionDenied, "app:app-pw": codes.PermissionDenied,
	} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
		if _, err := client.ShouldRateLimit(ctx, request("unknown", entries("k", "v"))); status.Code(err) != want {
			t.Errorf("%s: %v, want %v", token, err, want)
		}
	}
}

// A user that may only run CL.THROTTLE can use no method of any service that is served, except health checks. A new method needs
// a valid request here.
func TestUsers_OtherMethods(t *testing.T) {
	l := newLab(t, usersRules, func(o *options.Options) { o.RequirePass, o.AuthFailuresPerMinute = "secret", 0 })
	l.run("ACL", "SETUSER", "app", "on", ">app-pw", "+cl.throttle", "~app:*")
	requests := map[string]proto.Message{
		"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit": request("shop", entries("k", "v")),
		"/envoy.service.auth.v3.Authorization/Check":                   original{ip: "192.0.2.1", method: "GET", target: "/", host: "a.example", domain: "shop"}.check(),
		"/grpc.health.v1.Health/Check":                                 &healthpb.HealthCheckRequest{},
		"/grpc.health.v1.Health/List":                                  &healthpb.HealthListRequest{},
		"/grpc.health.v1.Health/Watch":                                 &healthpb.HealthCheckRequest{},
	}
	conn := l.dial()
	for method := range fullNames(l.server.grpc.GetServiceInfo()) {
		req := requests[method]
		if req == nil {
			t.Errorf("the test has no request of the method %s", method)
			continue
		}
		for token, want := range map[string]codes.Code{"app:app-pw": codes.PermissionDenied, "secret": codes.OK} {
			switch {
			case method == healthPrefix+"List":
				want = codes.Unimplemented
			case strings.HasPrefix(method, healthPrefix):
				want = codes.OK
			}
			if err := firstReply(t, conn, method, req, token); status.Code(err) != want {
				t.Errorf("%s with the token %s: %v, want %v", method, token, err, want)
			}
		}
	}
}

// firstReply calls a method, which may return a stream, and returns the error of the first reply.
func firstReply(t *testing.T, conn *grpc.ClientConn, method string, req proto.Message, token string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token), time.Minute)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return err
	}
	if err := errors.Join(stream.SendMsg(req), stream.CloseSend()); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return stream.RecvMsg(&emptypb.Empty{})
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
