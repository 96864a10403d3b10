package grpcedge

import (
	"context"
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/throttledhq/throttled/options"
)

// shownHeaders returns headers as text.
func shownHeaders(r *pb.RateLimitResponse) string {
	var list []string
	for _, h := range r.GetResponseHeadersToAdd() {
		list = append(list, h.GetKey()+": "+h.GetValue())
	}
	return strings.Join(list, ", ")
}

// TestHeaders checks the headers for the client, each with a new server.
func TestHeaders(t *testing.T) {
	for _, tt := range []struct {
		name  string
		times int
		ask   []*common.RateLimitDescriptor
		want  string
	}{
		{"one", 1, []*common.RateLimitDescriptor{one("five")}, "RateLimit-Limit: 5, RateLimit-Remaining: 4, RateLimit-Reset: 40, RateLimit-Policy: \"five\";q=5;w=60, RateLimit: \"five\";r=4;t=40"},
		{"refused", 6, []*common.RateLimitDescriptor{one("five")}, "RateLimit-Limit: 5, RateLimit-Remaining: 0, RateLimit-Reset: 40, RateLimit-Policy: \"five\";q=5;w=60, RateLimit: \"five\";r=0;t=40, Retry-After: 40"},
		{"none", 1, []*common.RateLimitDescriptor{one("unknown"), one("free")}, ""},
		{"least units", 1, []*common.RateLimitDescriptor{one("large"), one("five"), one("odd"), one("unknown")}, "RateLimit-Limit: 4, RateLimit-Remaining: 3, RateLimit-Reset: 880, RateLimit-Policy: \"odd\";q=4;w=900, RateLimit: \"odd\";r=3;t=880"},
		{"the first with the least units", 1, []*common.RateLimitDescriptor{hits(one("five"), 2), one("odd")}, "RateLimit-Limit: 5, RateLimit-Remaining: 3, RateLimit-Reset: 40, RateLimit-Policy: \"five\";q=5;w=60, RateLimit: \"five\";r=3;t=40"},
		{"the last refusal", 5, []*common.RateLimitDescriptor{one("odd"), hits(one("five"), 2)}, "RateLimit-Limit: 5, RateLimit-Remaining: 0, RateLimit-Reset: 40, RateLimit-Policy: \"five\";q=5;w=60, RateLimit: \"five\";r=0;t=40, Retry-After: 40"},
		{"a quota", 2, []*common.RateLimitDescriptor{one("quota1"), one("five")}, "RateLimit-Limit: 1, RateLimit-Remaining: 0, RateLimit-Reset: 345580, RateLimit-Policy: \"quota1\";q=1;w=604800, RateLimit: \"quota1\";r=0;t=345580, Retry-After: 345580"},
		{"an override", 1, []*common.RateLimitDescriptor{limited(one("x"), 9, typev3.RateLimitUnit_HOUR)}, "RateLimit-Limit: 9, RateLimit-Remaining: 8, RateLimit-Reset: 3580, RateLimit-Policy: \"override\";q=9;w=3600, RateLimit: \"override\";r=8;t=3580"},
		{"a quota that does not refuse the request", 2, []*common.RateLimitDescriptor{one("quota1"), one("quota2")}, "RateLimit-Limit: 1, RateLimit-Remaining: 0, RateLimit-Reset: 345580, RateLimit-Policy: \"quota1\";q=1;w=604800, RateLimit: \"quota1\";r=0;t=345580"},
		{"a limit of 0", 1, []*common.RateLimitDescriptor{one("nothing")}, "RateLimit-Limit: 0, RateLimit-Remaining: 0, RateLimit-Reset: 0, RateLimit-Policy: \"nothing\";q=0, RateLimit: \"nothing\";r=0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, conventionRules, func(o *options.Options) { o.RLSHeaders = true })
			client := l.client()
			var got string
			for range tt.times {
				r, err := client.ShouldRateLimit(context.Background(), request("edge", tt.ask...))
				if err != nil {
					t.Fatal(err)
				}
				got = shownHeaders(r)
			}
			if got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// TestHeadersAreOff checks that a response has no headers and no metadata by default.
func TestHeadersAreOff(t *testing.T) {
	r, err := newLab(t, conventionRules).client().ShouldRateLimit(context.Background(), request("edge", one("quota1")))
	if err != nil || len(r.GetResponseHeadersToAdd()) > 0 || r.GetDynamicMetadata() != nil {
		t.Errorf("%v, %v; want no headers and no metadata", r, err)
	}
}

// TestDynamicMetadata checks the metadata of responses, whose form is that of envoyproxy/ratelimit.
func TestDynamicMetadata(t *testing.T) {
	l := newLab(t, conventionRules, func(o *options.Options) { o.RLSMetadata = true })
	client := l.client()
	full := request("edge", hits(one("quota1"), 1), one("quota2"), limited(entries("a", "b", "c", "d"), 7, typev3.RateLimitUnit_HOUR))
	full.HitsAddend = 2
	for _, tt := range []struct {
		request *pb.RateLimitRequest
		want    string
	}{
		{request("edge", one("five")), `{"domain": "edge", "descriptors": [{"entries": ["five=x"]}]}`},
		{full, `{"domain": "edge", "hitsAddend": 2, "descriptors": [
			{"entries": ["quota1=x"], "hitsAddend": 1}, {"entries": ["quota2=x"]}, {"entries": ["a=b", "c=d"], "limit": "requests_per_unit:7 unit:HOUR"}],
			"metadata": {"tier": "gold", "nested": {"a": 1, "b": 2}}}`},
		{request("edge", one("quota1"), one("quota2")), `{"domain": "edge", "descriptors": [{"entries": ["quota1=x"]}, {"entries": ["quota2=x"]}]}`}, // both refuse
	} {
		want := &structpb.Struct{}
		if err := protojson.Unmarshal([]byte(tt.want), want); err != nil {
			t.Fatal(err)
		}
		r, err := client.ShouldRateLimit(context.Background(), tt.request)
		if err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(r.GetDynamicMetadata(), want) {
			t.Errorf("%v, want %v", r.GetDynamicMetadata(), want)
		}
	}
}
