package grpcedge

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/throttledhq/throttled/options"
)

// conventionRules has a limit for each convention. Limits of other domains are in those of their tests.
const conventionRules = `
version: 1
domain: edge
semantics: envoy
limits:
  five:
    when: {descriptor: five}
    per: [five]
    allow: 5 per minute
    algorithm: fixed
  named:
    when: {descriptor: named}
    allow: 3 per second
    algorithm: fixed
    envoy: {name: external}
  nothing:
    when: {descriptor: nothing}
    allow: none
    algorithm: fixed
  free:
    when: {descriptor: free}
    allow: unlimited
    algorithm: fixed
  silent:
    when: {descriptor: silent}
    allow: 1 per hour
    algorithm: fixed
    shadow: true
  broad:
    when: {descriptor: broad}
    allow: 10 per day
    algorithm: fixed
    envoy: {name: broad}
  narrow:
    when: {descriptor: narrow}
    allow: 2 per day
    algorithm: fixed
    envoy: {replaces: [broad]}
  open:
    when: {descriptor: open}
    allow: unlimited
    algorithm: fixed
    envoy: {name: broad, replaces: [broad]}
  quota1:
    when: {descriptor: quota1}
    allow: 1 per 7 days
    algorithm: fixed
    envoy: {quota_mode: true, metadata: '{"tier": "gold", "nested": {"a": 1}}'}
  quota2:
    when: {descriptor: quota2}
    allow: 2 per 30 days
    algorithm: fixed
    envoy: {quota_mode: true, metadata: '{"tier": "silver", "nested": {"b": 2}}'}
  large:
    when: {descriptor: large}
    allow: 5000000000 per 365 days
    algorithm: fixed
  odd:
    when: {descriptor: odd}
    allow: 4 per 15 minutes
    algorithm: fixed
---
version: 1
domain: native
limits:
  burst:
    when: {path: /a}
    per: [ip]
    allow: 60 per minute burst 2
  daily:
    per: [ip]
    allow: 3 per day
    algorithm: fixed
`

// one returns a descriptor with one entry whose value is "x".
func one(key string) *common.RateLimitDescriptor { return entries(key, "x") }

// limited adds a limit to a descriptor.
func limited(d *common.RateLimitDescriptor, n uint32, unit typev3.RateLimitUnit) *common.RateLimitDescriptor {
	d.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: unit}
	return d
}

// shown returns a response as text.
func shown(r *pb.RateLimitResponse) string {
	var b strings.Builder
	fmt.Fprint(&b, r.GetOverallCode())
	for _, s := range r.GetStatuses() {
		fmt.Fprintf(&b, " [%v", s.GetCode())
		if l := s.GetCurrentLimit(); l != nil {
			fmt.Fprintf(&b, " %s %d/%v", l.GetName(), l.GetRequestsPerUnit(), l.GetUnit())
		}
		fmt.Fprintf(&b, " %d", s.GetLimitRemaining())
		if d := s.GetDurationUntilReset(); d != nil {
			fmt.Fprintf(&b, " %v", d.AsDuration())
		}
		b.WriteString("]")
	}
	return b.String()
}

// TestConventions checks the responses to sequences of requests, each to a new server.
func TestConventions(t *testing.T) {
	edge := func(d ...*common.RateLimitDescriptor) *pb.RateLimitRequest { return request("edge", d...) }
	times := func(n int, r *pb.RateLimitRequest) (list []*pb.RateLimitRequest) {
		for range n {
			list = append(list, r)
		}
		return list
	}
	withHits := func(n uint32, r *pb.RateLimitRequest) *pb.RateLimitRequest { r.HitsAddend = n; return r }
	for _, tt := range []struct {
		name     string
		requests []*pb.RateLimitRequest
		want     string // the response to the last request
	}{
		{"admitted", times(1, edge(one("five"))), "OK [OK five 5/MINUTE 4 40s]"},
		{"at the limit", times(5, edge(one("five"))), "OK [OK five 5/MINUTE 0 40s]"},
		{"over the limit", times(6, edge(one("five"))), "OVER_LIMIT [OVER_LIMIT five 5/MINUTE 0 40s]"},
		{"values have counters of their own", append(times(6, edge(one("five"))), edge(entries("five", "y"))), "OK [OK five 5/MINUTE 4 40s]"},
		{"hits of the request", times(1, withHits(3, edge(one("five")))), "OK [OK five 5/MINUTE 2 40s]"},
		{"hits of the descriptor win", times(1, withHits(3, edge(hits(one("five"), 2)))), "OK [OK five 5/MINUTE 3 40s]"},
		{"hits of one descriptor only", times(1, withHits(3, edge(hits(one("five"), 2), one("large")))), "OK [OK five 5/MINUTE 3 40s] [OK large 4294967295/YEAR 4294967295 7007h59m40s]"},
		{"hits 0 reads", append(times(4, edge(hits(one("five"), 0))), edge(one("five"))), "OK [OK five 5/MINUTE 4 40s]"},
		{"hits 0 at the limit is over it", append(times(5, edge(one("five"))), edge(hits(one("five"), 0))), "OVER_LIMIT [OVER_LIMIT five 5/MINUTE 0 40s]"},
		{"hits 0 of the request is 1", times(2, withHits(0, edge(one("five")))), "OK [OK five 5/MINUTE 3 40s]"},
		{"more hits than the limit", times(1, withHits(6, edge(one("five")))), "OVER_LIMIT [OVER_LIMIT five 5/MINUTE 0 40s]"},
		{"a refused request is charged", append(times(1, withHits(6, edge(one("five")))), edge(one("five"))), "OVER_LIMIT [OVER_LIMIT five 5/MINUTE 0 40s]"},
		{"the same descriptor twice", times(1, edge(one("five"), one("five"))), "OK [OK five 5/MINUTE 4 40s] [OK five 5/MINUTE 3 40s]"},

		{"no rule", times(1, edge(one("unknown"))), "OK [OK 0]"},
		{"no rule for the depth", times(1, edge(entries("five", "x", "more", "y"))), "OK [OK 0]"},
		{"no entries", times(1, edge(entries())), "OK [OK 0]"},
		{"empty key and value", times(1, edge(entries("", ""))), "OK [OK 0]"},
		{"no such domain", times(1, request("unknown", one("five"), one("free"))), "OK [OK 0] [OK 0]"},
		{"an override without a domain is ignored", times(2, request("unknown", limited(one("five"), 1, typev3.RateLimitUnit_HOUR))), "OK [OK 0]"},

		{"unlimited", times(1, edge(one("free"))), "OK [OK 4294967295]"},
		{"none", times(1, edge(one("nothing"))), "OVER_LIMIT [OVER_LIMIT nothing 0/UNKNOWN 0]"},
		{"name of the rate limit", times(1, edge(one("named"))), "OK [OK external 3/SECOND 2 1s]"},
		{"shadow", times(3, edge(one("silent"))), "OK [OK silent 1/HOUR 0 59m40s]"},
		{"shadow beside another", times(3, edge(one("silent"), one("five"))), "OK [OK silent 1/HOUR 0 59m40s] [OK five 5/MINUTE 2 40s]"},
		{"large numbers", times(1, withHits(math.MaxUint32, edge(one("large")))), "OK [OK large 4294967295/YEAR 705032705 7007h59m40s]"},
		{"no unit", times(1, edge(one("odd"))), "OK [OK odd 4/UNKNOWN 3 14m40s]"},

		{"any over", append(times(5, edge(one("five"))), edge(one("large"), one("five"), one("unknown"))),
			"OVER_LIMIT [OK large 4294967295/YEAR 4294967295 7007h59m40s] [OVER_LIMIT five 5/MINUTE 0 40s] [OK 0]"},
		{"order of the statuses", times(1, edge(one("unknown"), one("free"), one("five"))), "OK [OK 0] [OK 4294967295] [OK five 5/MINUTE 4 40s]"},
		{"all descriptors are charged", append(times(1, edge(one("nothing"), one("five"))), edge(one("five"))), "OK [OK five 5/MINUTE 3 40s]"},

		{"replaced", times(1, edge(one("broad"), one("narrow"))), "OK [OK 0] [OK narrow 2/DAY 1 23h59m40s]"},
		{"replaced in any order", times(1, edge(one("narrow"), one("broad"))), "OK [OK narrow 2/DAY 1 23h59m40s] [OK 0]"},
		{"a replaced limit is not charged", append(times(2, edge(one("broad"), one("narrow"))), edge(one("broad"))), "OK [OK broad 10/DAY 9 23h59m40s]"},
		{"the replacing limit refuses", times(3, edge(one("broad"), one("narrow"))), "OVER_LIMIT [OK 0] [OVER_LIMIT narrow 2/DAY 0 23h59m40s]"},
		{"unlimited replaces, and is not replaced", times(1, edge(one("broad"), one("open"))), "OK [OK 0] [OK 4294967295]"},
		{"others are not replaced", times(1, edge(one("five"), one("narrow"), one("broad"))), "OK [OK five 5/MINUTE 4 40s] [OK narrow 2/DAY 1 23h59m40s] [OK 0]"},
		{"an override is not replaced", times(1, edge(limited(one("broad"), 7, typev3.RateLimitUnit_DAY), one("narrow"))), "OK [OK  7/DAY 6 23h59m40s] [OK narrow 2/DAY 1 23h59m40s]"},

		{"one quota of two", times(2, edge(one("quota1"), one("quota2"))), "OK [OVER_LIMIT quota1 1/WEEK 0 95h59m40s] [OK quota2 2/MONTH 0 167h59m40s]"},
		{"all quotas", times(3, edge(one("quota1"), one("quota2"))), "OVER_LIMIT [OVER_LIMIT quota1 1/WEEK 0 95h59m40s] [OVER_LIMIT quota2 2/MONTH 0 167h59m40s]"},
		{"one quota alone", times(2, edge(one("quota1"))), "OVER_LIMIT [OVER_LIMIT quota1 1/WEEK 0 95h59m40s]"},
		{"all quotas, and another limit", times(2, edge(one("quota1"), one("five"))), "OVER_LIMIT [OVER_LIMIT quota1 1/WEEK 0 95h59m40s] [OK five 5/MINUTE 3 40s]"},
		{"a quota, and another limit refuses", times(1, edge(one("quota1"), one("nothing"))), "OVER_LIMIT [OK quota1 1/WEEK 0 95h59m40s] [OVER_LIMIT nothing 0/UNKNOWN 0]"},
		{"a quota, and unlimited", times(2, edge(one("quota1"), one("free"))), "OVER_LIMIT [OVER_LIMIT quota1 1/WEEK 0 95h59m40s] [OK 4294967295]"},

		{"override", times(1, edge(limited(one("five"), 2, typev3.RateLimitUnit_HOUR))), "OK [OK  2/HOUR 1 59m40s]"},
		{"override refuses", times(3, edge(limited(one("five"), 2, typev3.RateLimitUnit_HOUR))), "OVER_LIMIT [OVER_LIMIT  2/HOUR 0 59m40s]"},
		{"override without a rule", times(3, edge(limited(one("unknown"), 2, typev3.RateLimitUnit_SECOND))), "OVER_LIMIT [OVER_LIMIT  2/SECOND 0 1s]"},
		{"override of a shadow limit is not in shadow", times(2, edge(limited(one("silent"), 1, typev3.RateLimitUnit_MINUTE))), "OVER_LIMIT [OVER_LIMIT  1/MINUTE 0 40s]"},
		{"override of unlimited", times(2, edge(limited(one("free"), 1, typev3.RateLimitUnit_DAY))), "OVER_LIMIT [OVER_LIMIT  1/DAY 0 23h59m40s]"},
		{"override of a quota", times(2, edge(limited(one("quota1"), 1, typev3.RateLimitUnit_MONTH), one("quota2"))), "OVER_LIMIT [OVER_LIMIT  1/MONTH 0 167h59m40s] [OK quota2 2/MONTH 0 167h59m40s]"},
		{"override does not charge the rule", append(times(3, edge(limited(one("five"), 2, typev3.RateLimitUnit_YEAR))), edge(one("five"))), "OK [OK five 5/MINUTE 4 40s]"},
		{"override of 0", times(1, edge(limited(one("five"), 0, typev3.RateLimitUnit_HOUR))), "OVER_LIMIT [OVER_LIMIT  0/HOUR 0]"},
		{"override reads with hits 0", append(times(3, edge(hits(limited(one("x"), 2, typev3.RateLimitUnit_HOUR), 0))), edge(limited(one("x"), 2, typev3.RateLimitUnit_HOUR))), "OK [OK  2/HOUR 1 59m40s]"},
		{"refused override is charged", append(times(1, edge(hits(limited(one("x"), 2, typev3.RateLimitUnit_HOUR), 3))), edge(limited(one("x"), 2, typev3.RateLimitUnit_HOUR))), "OVER_LIMIT [OVER_LIMIT  2/HOUR 0 59m40s]"},
		{"overrides of other entries", append(times(2, edge(limited(entries("a", "b=c"), 1, typev3.RateLimitUnit_HOUR))), edge(limited(entries("a=b", "c"), 1, typev3.RateLimitUnit_HOUR))), "OK [OK  1/HOUR 0 59m40s]"},
		{"overrides with another unit", append(times(1, edge(limited(one("x"), 1, typev3.RateLimitUnit_HOUR))), edge(limited(one("x"), 1, typev3.RateLimitUnit_DAY))), "OK [OK  1/DAY 0 23h59m40s]"},
		{"overrides and rules in one request", times(1, edge(one("five"), limited(one("x"), 9, typev3.RateLimitUnit_HOUR), one("unknown"), limited(one("y"), 8, typev3.RateLimitUnit_HOUR), one("named"))),
			"OK [OK five 5/MINUTE 4 40s] [OK  9/HOUR 8 59m40s] [OK 0] [OK  8/HOUR 7 59m40s] [OK external 3/SECOND 2 1s]"},

		{"several limits: the deciding one", times(3, request("native", entries("path", "/a", "ip", "192.0.2.1"))), "OVER_LIMIT [OVER_LIMIT burst 2/MINUTE 0 1s]"},
		{"several limits: the one with the least units", times(2, request("native", entries("path", "/b", "ip", "192.0.2.1"))), "OK [OK daily 3/DAY 1 23h59m40s]"},
		{"a refused request of a native domain charges nothing", append(times(3, request("native", entries("path", "/a", "ip", "192.0.2.1"))), request("native", entries("ip", "192.0.2.1"))), "OK [OK daily 3/DAY 0 23h59m40s]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client := newLab(t, conventionRules).client()
			var got string
			for _, r := range tt.requests {
				response, err := client.ShouldRateLimit(context.Background(), r)
				if err != nil {
					t.Fatal(err)
				}
				got = shown(response)
			}
			if got != tt.want {
				t.Errorf("the response to request %d is\n%s, want\n%s", len(tt.requests), got, tt.want)
			}
		})
	}
}

// TestWindows checks that a window ends, also that of an override.
func TestWindows(t *testing.T) {
	l := newLab(t, conventionRules)
	client := l.client()
	r := request("edge", one("five"), limited(one("x"), 5, typev3.RateLimitUnit_MINUTE))
	r.HitsAddend = 5
	for i, want := range []string{
		"OK [OK five 5/MINUTE 0 40s] [OK  5/MINUTE 0 40s]",
		"OVER_LIMIT [OVER_LIMIT five 5/MINUTE 0 30s] [OVER_LIMIT  5/MINUTE 0 30s]",
		"OVER_LIMIT [OVER_LIMIT five 5/MINUTE 0 20s] [OVER_LIMIT  5/MINUTE 0 20s]",
		"OVER_LIMIT [OVER_LIMIT five 5/MINUTE 0 10s] [OVER_LIMIT  5/MINUTE 0 10s]",
		"OK [OK five 5/MINUTE 0 1m0s] [OK  5/MINUTE 0 1m0s]",
	} {
		got, err := client.ShouldRateLimit(context.Background(), r)
		if err != nil || shown(got) != want {
			t.Errorf("request %d: %s, %v; want %s", i, shown(got), err, want)
		}
		l.advance(10 * time.Second)
	}
}

// TestNegativeHits checks refunds, which need a setting.
func TestNegativeHits(t *testing.T) {
	refunds := func(o *options.Options) { o.GRPCNegativeHits = true }
	disabled, enabled := newLab(t, conventionRules).client(), newLab(t, conventionRules, refunds).client()
	ask := func(client pb.RateLimitServiceClient, d ...*common.RateLimitDescriptor) string {
		r, err := client.ShouldRateLimit(context.Background(), request("edge", d...))
		if err != nil {
			return status.Code(err).String()
		}
		return shown(r)
	}
	over := func() *common.RateLimitDescriptor { return limited(one("x"), 3, typev3.RateLimitUnit_MINUTE) }
	for _, tt := range []struct {
		enabled bool
		ask     []*common.RateLimitDescriptor
		want    string
	}{
		{true, []*common.RateLimitDescriptor{hits(one("five"), 4)}, "OK [OK five 5/MINUTE 1 40s]"},
		{false, []*common.RateLimitDescriptor{hits(one("five"), -3)}, codes.Unimplemented.String()},
		{true, []*common.RateLimitDescriptor{hits(one("five"), -3)}, "OK [OK five 5/MINUTE 4 40s]"},
		{true, []*common.RateLimitDescriptor{hits(one("five"), -3)}, "OK [OK five 5/MINUTE 5]"}, // not more than the limit
		{true, []*common.RateLimitDescriptor{hits(one("five"), 6)}, "OVER_LIMIT [OVER_LIMIT five 5/MINUTE 0 40s]"},
		{true, []*common.RateLimitDescriptor{hits(one("five"), -1)}, "OK [OK five 5/MINUTE 1 40s]"},
		{true, []*common.RateLimitDescriptor{hits(one("nothing"), -1)}, "OK [OK nothing 0/UNKNOWN 0]"},
		{true, []*common.RateLimitDescriptor{hits(one("unknown"), -1)}, "OK [OK 0]"},
		{true, []*common.RateLimitDescriptor{hits(over(), 3)}, "OK [OK  3/MINUTE 0 40s]"},
		{true, []*common.RateLimitDescriptor{hits(over(), -2), hits(one("five"), -1)}, "OK [OK  3/MINUTE 2 40s] [OK five 5/MINUTE 2 40s]"},
		{true, []*common.RateLimitDescriptor{hits(over(), math.MinInt64+1)}, "OK [OK  3/MINUTE 3]"},
	} {
		client := disabled
		if tt.enabled {
			client = enabled
		}
		if got := ask(client, tt.ask...); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.ask, got, tt.want)
		}
	}
}

// TestRefused checks requests that are errors.
func TestRefused(t *testing.T) {
	l := newLab(t, conventionRules)
	client := l.client()
	many := make([]*common.RateLimitDescriptor, maxDescriptors+1)
	for i := range many {
		many[i] = one("five")
	}
	tooMany := hits(one("five"), 1)
	tooMany.HitsAddend.Value = math.MaxUint64
	for _, tt := range []struct {
		name    string
		request *pb.RateLimitRequest
		code    codes.Code
		message string
	}{
		{"no domain", request("", one("five")), codes.InvalidArgument, "rate limit domain must not be empty"},
		{"no descriptors", request("edge"), codes.InvalidArgument, "rate limit descriptor list must not be empty"},
		{"empty", &pb.RateLimitRequest{}, codes.InvalidArgument, "domain"},
		{"many descriptors", request("edge", many...), codes.InvalidArgument, "129 descriptors: a request has at most 128"},
		{"unit of an override", request("edge", one("five"), limited(one("x"), 1, typev3.RateLimitUnit_UNKNOWN)), codes.InvalidArgument, "descriptor 2: limit: unit UNKNOWN is not supported"},
		{"unknown unit of an override", request("edge", limited(one("x"), 1, 99)), codes.InvalidArgument, "descriptor 1: limit: unit 99 is not supported"},
		{"hits", request("edge", tooMany), codes.InvalidArgument, "descriptor 1: hits_addend 18446744073709551615 is too large"},
		{"a message that is too long", request("edge", entries("five", strings.Repeat("x", maxMessage))), codes.ResourceExhausted, "larger than max"},
	} {
		_, err := client.ShouldRateLimit(context.Background(), tt.request)
		if s := status.Convert(err); s.Code() != tt.code || !strings.Contains(s.Message(), tt.message) {
			t.Errorf("%s: %v %q, want %v %q", tt.name, s.Code(), s.Message(), tt.code, tt.message)
		}
	}
	if got, err := client.ShouldRateLimit(context.Background(), request("edge", one("five"))); err != nil || shown(got) != "OK [OK five 5/MINUTE 4 40s]" {
		t.Errorf("after the refused requests: %s, %v; want that they have charged nothing", shown(got), err)
	}
}

// TestNoRules checks that requests are errors while no rules are loaded, and are decided when they are.
func TestNoRules(t *testing.T) {
	l := newLab(t, "")
	client := l.client()
	_, err := client.ShouldRateLimit(context.Background(), request("edge", one("five")))
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "--rules FILE") {
		t.Errorf("without rules: %v, want %v, and --rules", err, codes.Unavailable)
	}
	sidecar := newLab(t, "", func(o *options.Options) { o.Upstream = []string{"up:1", "up:2"} })
	_, err = sidecar.client().ShouldRateLimit(context.Background(), request("edge", one("five")))
	if want := "set them on the upstream, up:1,up:2,"; status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), want) {
		t.Errorf("on a sidecar without rules: %v, want %v, and %q", err, codes.Unavailable, want)
	}
	l.setRules(conventionRules)
	for _, want := range []string{"OK [OK five 5/MINUTE 4 40s]", "OK [OK five 7/MINUTE 5 40s]"} {
		got, err := client.ShouldRateLimit(context.Background(), request("edge", one("five")))
		if err != nil || shown(got) != want {
			t.Errorf("with rules: %s, %v; want %s", shown(got), err, want)
		}
		l.setRules(strings.ReplaceAll(conventionRules, "5 per minute", "7 per minute"))
	}
}
