package grpcedge

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/throttledhq/throttled/internal/race"
	"github.com/throttledhq/throttled/rules/envoy"
)

var oracleSteps = flag.Int("oracle-steps", 5000, "number of random requests that are compared with the model of the service")

// modelConfig is a configuration of the ratelimit service.
const modelConfig = `
domain: model
descriptors:
  - {key: sec, rate_limit: {unit: second, requests_per_unit: 3}}
  - {key: min, rate_limit: {unit: minute, requests_per_unit: 7, name: a}}
  - {key: day, value: x, rate_limit: {unit: day, requests_per_unit: 20, replaces: [{name: a}]}}
  - {key: day, rate_limit: {unit: day, requests_per_unit: 10, name: b, replaces: [{name: a}, {name: c}]}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 2, name: c}}
  - {key: quota1, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: quota2, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 9, name: a}}
  - {key: free, rate_limit: {unlimited: true, name: c, replaces: [{name: b}]}}
`

// modelLimit is a limit of modelConfig.
type modelLimit struct {
	name          string
	rule          string // name in the rules file
	unit          pb.RateLimitResponse_RateLimit_Unit
	count         uint32
	shadow, quota bool
	unlimited     bool
	replaces      []string
}

var modelLimits = map[string]modelLimit{
	"sec":    {rule: "sec", unit: pb.RateLimitResponse_RateLimit_SECOND, count: 3},
	"min":    {rule: "min", name: "a", unit: pb.RateLimitResponse_RateLimit_MINUTE, count: 7},
	"day=x":  {rule: "day_x", unit: pb.RateLimitResponse_RateLimit_DAY, count: 20, replaces: []string{"a"}},
	"day":    {rule: "day", name: "b", unit: pb.RateLimitResponse_RateLimit_DAY, count: 10, replaces: []string{"a", "c"}},
	"shadow": {rule: "shadow", name: "c", unit: pb.RateLimitResponse_RateLimit_MINUTE, count: 2, shadow: true},
	"quota1": {rule: "quota1", unit: pb.RateLimitResponse_RateLimit_MINUTE, count: 2, quota: true},
	"quota2": {rule: "quota2", name: "a", unit: pb.RateLimitResponse_RateLimit_HOUR, count: 9, quota: true},
	"free":   {name: "c", unlimited: true, replaces: []string{"b"}},
}

// model is a literal model of the service: src/service/ratelimit.go and src/limiter/base_limiter.go of
// envoyproxy/ratelimit. It differs in one point: a descriptor with 0 hits is over its limit if nothing remains, whether or
// not a request was refused before. It has no duration if the window is unused.
type model struct{ used map[string]uint64 }

// limitOf returns the limit of a descriptor, or nil.
func limitOf(d *common.RateLimitDescriptor) *modelLimit {
	if o := d.GetLimit(); o != nil {
		return &modelLimit{unit: pb.RateLimitResponse_RateLimit_Unit(o.GetUnit()), count: o.GetRequestsPerUnit()}
	}
	if len(d.GetEntries()) != 1 {
		return nil
	}
	e := d.GetEntries()[0]
	for _, key := range []string{e.GetKey() + "=" + e.GetValue(), e.GetKey()} {
		if l, ok := modelLimits[key]; ok {
			return &l
		}
	}
	return nil
}

func (m *model) shouldRateLimit(req *pb.RateLimitRequest, now int64) *pb.RateLimitResponse {
	replacing := map[string]bool{}
	limits := make([]*modelLimit, len(req.GetDescriptors()))
	for i, d := range req.GetDescriptors() {
		if limits[i] = limitOf(d); limits[i] != nil {
			for _, name := range limits[i].replaces {
				replacing[name] = true
			}
		}
	}
	resp := &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK}
	failed, failedQuotas, quotas := 0, 0, 0
	for i, d := range req.GetDescriptors() {
		l := limits[i]
		switch {
		case l == nil || !l.unlimited && l.name != "" && replacing[l.name]:
			resp.Statuses = append(resp.Statuses, &pb.RateLimitResponse_DescriptorStatus{Code: pb.RateLimitResponse_OK})
			continue
		case l.unlimited:
			resp.Statuses = append(resp.Statuses, &pb.RateLimitResponse_DescriptorStatus{Code: pb.RateLimitResponse_OK, LimitRemaining: 1<<32 - 1})
			continue
		}
		s := m.charge(req, d, l, now)
		resp.Statuses = append(resp.Statuses, s)
		over := s.GetCode() == pb.RateLimitResponse_OVER_LIMIT
		switch {
		case l.quota && over:
			quotas, failedQuotas = quotas+1, failedQuotas+1
		case l.quota:
			quotas++
		case over:
			failed++
		}
	}
	if failed > 0 || quotas > 0 && quotas == failedQuotas {
		resp.OverallCode = pb.RateLimitResponse_OVER_LIMIT
	}
	return resp
}

// charge charges a descriptor, and returns its status.
func (m *model) charge(req *pb.RateLimitRequest, d *common.RateLimitDescriptor, l *modelLimit, now int64) *pb.RateLimitResponse_DescriptorStatus {
	add := max(1, uint64(req.GetHitsAddend()))
	if d.GetHitsAddend() != nil {
		add = d.GetHitsAddend().GetValue()
	}
	length := int64(unitLengths[l.unit] / time.Second)
	key := fmt.Sprint(d.GetEntries(), l.rule, l.unit, now/length)
	m.used[key] += add
	used := m.used[key]
	name := l.name
	if name == "" {
		name = l.rule
	}
	s := &pb.RateLimitResponse_DescriptorStatus{
		Code:         pb.RateLimitResponse_OK,
		CurrentLimit: &pb.RateLimitResponse_RateLimit{Name: name, Unit: l.unit, RequestsPerUnit: l.count},
	}
	if used > 0 {
		s.DurationUntilReset = durationpb.New(time.Duration(length-now%length) * time.Second)
	}
	if used > uint64(l.count) || add == 0 && used == uint64(l.count) {
		if !l.shadow {
			s.Code = pb.RateLimitResponse_OVER_LIMIT
		}
		return s
	}
	s.LimitRemaining = l.count - uint32(used)
	return s
}

// TestOracle compares the responses to random requests with those of the model.
func TestOracle(t *testing.T) {
	text, _, err := envoy.Convert([]envoy.Source{{Name: "model", Text: []byte(modelConfig)}}, false)
	if err != nil {
		t.Fatal(err)
	}
	l := newLab(t, string(text))
	client := l.client()
	m := &model{used: map[string]uint64{}}
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 1))
	for step := range *oracleSteps / race.Factor {
		req := randomRequest(r)
		got, err := client.ShouldRateLimit(context.Background(), req)
		if err != nil {
			t.Fatalf("seed %d, step %d: %v: %v", seed, step, req, err)
		}
		want := m.shouldRateLimit(req, l.now.Load()/int64(time.Second))
		if !proto.Equal(got, want) {
			t.Fatalf("seed %d, step %d: the response to %v is\n%s, want\n%s", seed, step, req, shown(got), shown(want))
		}
		if r.IntN(4) == 0 {
			l.advance(time.Duration(r.IntN(3000)) * time.Millisecond)
		}
	}
}

// randomRequest returns a request whose descriptors differ: if a request is refused, the units that remain are charged
// after all descriptors of the request are decided.
func randomRequest(r *rand.Rand) *pb.RateLimitRequest {
	req := &pb.RateLimitRequest{Domain: "model"}
	if r.IntN(3) == 0 {
		req.HitsAddend = uint32(r.IntN(5))
	}
	keys := []string{"sec", "min", "day", "shadow", "quota1", "quota2", "free", "unknown"}
	r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for _, key := range keys[:1+r.IntN(4)] {
		d := entries(key, []string{"x", "y", ""}[r.IntN(3)])
		if r.IntN(10) == 0 {
			d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: "more", Value: "z"})
		}
		if r.IntN(5) == 0 {
			d = hits(d, int64(r.IntN(4)))
		}
		if r.IntN(5) == 0 {
			d = limited(d, uint32(1+len(key)%5), typev3.RateLimitUnit(1+r.IntN(4))) // the limit of a window does not change
		}
		req.Descriptors = append(req.Descriptors, d)
	}
	return req
}
