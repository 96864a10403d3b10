package grpcedge

import (
	"context"
	"testing"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/throttledhq/throttled/options"
)

// marshal returns the bytes of a message.
func marshal(tb testing.TB, m proto.Message) []byte {
	tb.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// FuzzShouldRateLimit checks that the response to any request has a status for each descriptor and can be encoded, or that the
// error has a code that is documented.
func FuzzShouldRateLimit(f *testing.F) {
	l := newLab(f, conventionRules, func(o *options.Options) { o.GRPCNegativeHits, o.RLSHeaders, o.RLSMetadata = true, true, true })
	s := &rateLimits{core: l.server.core}
	for _, r := range []*pb.RateLimitRequest{
		request("edge", one("five"), hits(one("quota1"), 3), one("quota2")),
		request("edge", one("broad"), one("narrow"), one("open"), limited(entries("a", "b", "c", ""), 5, typev3.RateLimitUnit_HOUR)),
		request("native", entries("path", "/a", "ip", "192.0.2.1")),
		request("native", entries("ip", "x", "ip", "y", "", "", "entry.1", "z", "descriptor", "w")),
		request("unknown", hits(one("five"), -5)), {},
	} {
		f.Add(marshal(f, r))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		req := &pb.RateLimitRequest{}
		if len(data) > maxMessage || proto.Unmarshal(data, req) != nil {
			return
		}
		resp, err := s.ShouldRateLimit(context.Background(), req)
		switch status.Code(err) {
		case codes.OK:
			if len(resp.GetStatuses()) != len(req.GetDescriptors()) {
				t.Errorf("%d statuses for %d descriptors", len(resp.GetStatuses()), len(req.GetDescriptors()))
			}
			marshal(t, resp)
		case codes.InvalidArgument:
		default:
			t.Errorf("%v: %v", req, err)
		}
	})
}

// FuzzCheck checks that the response to any authorization request admits or denies it, or that the error has a code that is
// documented.
func FuzzCheck(f *testing.F) {
	l := newLab(f, authzRules, func(o *options.Options) { o.EdgeDomain = "web" })
	s := &authorization{core: l.server.core}
	for _, o := range []original{
		{ip: "192.0.2.1", method: "POST", target: "/login", host: "x", domain: "web", cost: "2", headers: map[string]string{"x-forwarded-for": "1.1.1.1"}},
		{ip: "2001:db8::1", target: "/%zz", raw: true, headers: map[string]string{"x-user": "ann"}}, {pipe: true, connection: true},
	} {
		f.Add(marshal(f, o.check()))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		req := &auth.CheckRequest{}
		if len(data) > maxMessage || proto.Unmarshal(data, req) != nil {
			return
		}
		resp, err := s.Check(context.Background(), req)
		switch status.Code(err) {
		case codes.OK:
			if resp.GetOkResponse() == nil && resp.GetDeniedResponse().GetStatus() == nil {
				t.Errorf("%v: the response %v neither admits nor denies", req, resp)
			}
			marshal(t, resp)
		case codes.InvalidArgument:
		default:
			t.Errorf("%v: %v", req, err)
		}
	})
}
