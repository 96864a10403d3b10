package main

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/throttledhq/throttled/internal/freeport"
)

// TestProcess_SidecarGRPC sends calls of both services of Envoy to two sidecars of one upstream. The sidecars must decide by
// the rules of the upstream, and charge the same limit, with leases and without. When the upstream has
// failed, on_failure of the rules must apply.
func TestProcess_SidecarGRPC(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, file, edgeRules+"    on_failure: closed\n")
	up := newServer(t, "--rules", file)
	var sides [2]grpcSidecar
	for i, leases := range []string{"strict", "off"} {
		sides[i] = newGRPCSidecar(t, up, leases)
	}
	for i, want := range []bool{true, true, false, false} { // the limit is 2
		if got := sides[i%2].rateLimit(t, "192.0.2.7"); got != want {
			t.Errorf("rate limit service, request %d: admitted %t, want %t", i, got, want)
		}
	}
	if got := sides[0].authorize(t, "192.0.2.7"); got {
		t.Error("external authorization: a request above the limit is admitted")
	}
	for i, want := range []bool{true, true, false} {
		if got := sides[i%2].authorize(t, "192.0.2.8"); got != want {
			t.Errorf("external authorization, request %d: admitted %t, want %t", i, got, want)
		}
	}
	up.kill()
	for _, side := range sides {
		side.askUntil("upstream_link_status:down", "INFO", "sidecar")
	}
	for _, side := range sides {
		if side.rateLimit(t, "192.0.2.9") || side.authorize(t, "192.0.2.9") {
			t.Error("a request without an upstream is admitted, want on_failure closed")
		}
		side.override(t, "open", pb.RateLimitResponse_OK)
		side.override(t, "closed", pb.RateLimitResponse_OVER_LIMIT)
	}
	if health, err := healthpb.NewHealthClient(sides[1].conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil || health.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health without an upstream: %v, %v; want SERVING, because the sidecar still decides", health, err)
	}
}

// TestProcess_SidecarGRPCUsers sends requests for a domain that the rules do not have. The users of the sidecar must decide
// whether a client may use the domain: the user of the sidecar on the upstream may not, and must not be asked.
func TestProcess_SidecarGRPCUsers(t *testing.T) {
	dir := t.TempDir()
	file, password := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "password")
	writeFile(t, file, edgeRules)
	writeFile(t, password, "pw")
	up := newServer(t, "--rules", file)
	up.askUntil("PONG", "PING")
	up.mustDo("ACL", "SETUSER", "sidecar", "on", ">pw", "~*", "domain:shop", "+@limits", "+role", "+exists", "+cl.rules|history", "+cl.rules|get")
	side := newGRPCSidecar(t, up, "off", "--upstream-user", "sidecar", "--upstream-password-file", password)
	side.mustDo("ACL", "SETUSER", "all", "on", ">pw", "+cl.check", "alldomains")
	side.mustDo("ACL", "SETUSER", "shop", "on", ">pw", "+cl.check", "domain:shop")
	for user, want := range map[string]codes.Code{"all": codes.OK, "shop": codes.PermissionDenied} {
		request := rateLimitRequest("192.0.2.7")
		request.Domain = "unknown"
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+user+":pw")
		got, err := pb.NewRateLimitServiceClient(side.conn).ShouldRateLimit(ctx, request, grpc.WaitForReady(true))
		if status.Code(err) != want || err == nil && got.GetOverallCode() != pb.RateLimitResponse_OK {
			t.Errorf("user %s: got %v, %v; want %v", user, got, err, want)
		}
	}
	if n := up.infoField("stats", "acl_access_denied_domain"); n != 0 {
		t.Errorf("the upstream was asked %d times for a domain that the sidecar may not use, want 0", n)
	}
	if n := side.infoField("stats", "acl_access_denied_domain"); n != 1 {
		t.Errorf("the sidecar counts %d denials, want 1", n)
	}
}

// grpcSidecar is a sidecar, and a connection to its gRPC server.
type grpcSidecar struct {
	*process
	conn *grpc.ClientConn
}

func newGRPCSidecar(t *testing.T, up *process, leases string, args ...string) grpcSidecar {
	t.Helper()
	port := freeport.Of(t)
	side := newSidecarOf(t, []*process{up}, append(args, "--grpc-port", fmt.Sprint(port), "--upstream-away", "open", "--upstream-leases", leases)...)
	side.askUntil("rules_version:1", "INFO", "rules")
	conn, err := grpc.NewClient(fmt.Sprint("127.0.0.1:", port), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return grpcSidecar{side, conn}
}

// rateLimitRequest returns a request of the rate limit service about a login from an address.
func rateLimitRequest(ip string) *pb.RateLimitRequest {
	d := &common.RateLimitDescriptor{Entries: []*common.RateLimitDescriptor_Entry{{Key: "path", Value: "/login"}, {Key: "ip", Value: ip}}}
	return &pb.RateLimitRequest{Domain: "shop", Descriptors: []*common.RateLimitDescriptor{d}}
}

// authorizationRequest returns a request of the external authorization service about a login from an address.
func authorizationRequest(ip string) *auth.CheckRequest {
	source := &auth.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: ip}}}}
	request := &auth.AttributeContext_Request{Http: &auth.AttributeContext_HttpRequest{Method: "POST", Path: "/login", Host: "shop.example"}}
	return &auth.CheckRequest{Attributes: &auth.AttributeContext{Source: source, Request: request, ContextExtensions: map[string]string{"domain": "shop"}}}
}

// rateLimit asks the rate limit service about a login from an address.
func (s grpcSidecar) rateLimit(t *testing.T, ip string) (admitted bool) {
	t.Helper()
	got, err := pb.NewRateLimitServiceClient(s.conn).ShouldRateLimit(context.Background(), rateLimitRequest(ip), grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	return got.GetOverallCode() == pb.RateLimitResponse_OK
}

// override sends a descriptor with a limit of its own, which upstream-away decides. The status must not show the limit,
// since it is not enforced.
func (s grpcSidecar) override(t *testing.T, policy string, want pb.RateLimitResponse_Code) {
	t.Helper()
	s.mustDo("CONFIG", "SET", "upstream-away", policy)
	request := rateLimitRequest("192.0.2.9")
	request.Descriptors[0].Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 5, Unit: typev3.RateLimitUnit_HOUR}
	got, err := pb.NewRateLimitServiceClient(s.conn).ShouldRateLimit(t.Context(), request)
	if err != nil || got.GetOverallCode() != want || got.GetStatuses()[0].GetCurrentLimit() != nil {
		t.Errorf("upstream-away %s: got %v, %v; want %v without a current_limit", policy, got, err, want)
	}
}

// authorize asks the external authorization service about a login from an address.
func (s grpcSidecar) authorize(t *testing.T, ip string) (admitted bool) {
	t.Helper()
	got, err := auth.NewAuthorizationClient(s.conn).Check(context.Background(), authorizationRequest(ip))
	if err != nil {
		t.Fatal(err)
	}
	return codes.Code(got.GetStatus().GetCode()) == codes.OK
}
