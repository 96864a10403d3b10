package grpcedge

import (
	"errors"
	"math"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/throttledhq/throttled/edge/decision"
	"github.com/throttledhq/throttled/rules"
)

// answer is the status of a descriptor with its parts, so that a response needs few allocations.
type answer struct {
	status pb.RateLimitResponse_DescriptorStatus
	limit  pb.RateLimitResponse_RateLimit
	reset  durationpb.Duration

	result  *decision.Result // nil if no limit applies
	special *specialLimit    // nil if no limit, or an unlimited amount applies
}

// units are the units of Envoy, by their length.
var units = map[time.Duration]pb.RateLimitResponse_RateLimit_Unit{
	time.Second:          pb.RateLimitResponse_RateLimit_SECOND,
	time.Minute:          pb.RateLimitResponse_RateLimit_MINUTE,
	time.Hour:            pb.RateLimitResponse_RateLimit_HOUR,
	24 * time.Hour:       pb.RateLimitResponse_RateLimit_DAY,
	7 * 24 * time.Hour:   pb.RateLimitResponse_RateLimit_WEEK,
	30 * 24 * time.Hour:  pb.RateLimitResponse_RateLimit_MONTH,
	365 * 24 * time.Hour: pb.RateLimitResponse_RateLimit_YEAR,
}

// unitLengths is the inverse of units.
var unitLengths = func() map[pb.RateLimitResponse_RateLimit_Unit]time.Duration {
	m := map[pb.RateLimitResponse_RateLimit_Unit]time.Duration{}
	for length, unit := range units {
		m[unit] = length
	}
	return m
}()

// setNone sets the answer of a descriptor without a limit.
func (a *answer) setNone() { a.status.Code = pb.RateLimitResponse_OK }

// setRules sets the answer of a descriptor that the rules have decided.
func (a *answer) setRules(r *decision.Result, domain *domainRules, hits int64) {
	a.status.Code = pb.RateLimitResponse_OK
	l := decidingLimit(r)
	switch {
	case l == nil:
		return
	case l.Flags.Has(decision.Unlimit):
		a.status.LimitRemaining = math.MaxUint32
		return
	}
	a.result, a.special = r, domain.find(l.Name)
	if isOver(&l.Decision, hits) && !l.Flags.Has(decision.Shadow) {
		a.status.Code = pb.RateLimitResponse_OVER_LIMIT
	}
	a.setReset(&l.Decision)
	if l.Limit == decision.Unlimited || l.Flags.Has(decision.FailClosed) {
		return // no leader has decided the limit, or the cost of a shadow limit is unknown
	}
	name := a.special.limit.Envoy.Name
	if name == "" {
		name = l.Name
	}
	a.setLimit(&l.Decision, name, units[l.Period])
}

// overrideName is the name of all limits of descriptors in headers.
const overrideName = "override"

// setOverride sets the answer of a descriptor with a limit of its own.
func (a *answer) setOverride(r *decision.Result, o *override) {
	r.Name = overrideName
	r.Limits = append(r.Limits[:0], decision.Limit{Decision: r.Decision, Name: r.Name, Period: unitLengths[o.unit], Flags: r.Flags})
	a.result, a.special = r, &plainLimit
	a.status.Code = pb.RateLimitResponse_OK
	if isOver(&r.Decision, o.hits) {
		a.status.Code = pb.RateLimitResponse_OVER_LIMIT
	}
	a.setReset(&r.Decision)
	if r.Flags.Has(decision.FailOpen | decision.FailClosed) {
		return // the upstream of a sidecar was away
	}
	a.setLimit(&r.Decision, "", o.unit)
}

// isOver reports whether a descriptor is over its limit. A refund never is. If nothing is charged, the descriptor is over
// its limit if nothing remains: otherwise a request whose units are charged afterward would never be refused.
func isOver(d *decision.Decision, hits int64) bool {
	switch {
	case hits < 0:
		return false
	case hits == 0:
		return d.Limited || d.Remaining <= 0
	}
	return d.Limited
}

// setLimit sets current_limit and limit_remaining.
func (a *answer) setLimit(d *decision.Decision, name string, unit pb.RateLimitResponse_RateLimit_Unit) {
	a.limit.Name, a.limit.Unit, a.limit.RequestsPerUnit = name, unit, clamp(d.Limit)
	a.status.CurrentLimit = &a.limit
	if a.status.Code == pb.RateLimitResponse_OK && !d.Limited {
		a.status.LimitRemaining = clamp(d.Remaining)
	}
}

// setReset sets duration_until_reset: the time after which a refused request can be repeated, or until the full limit
// is available. Envoy ignores the fraction of a second, so it is rounded up.
func (a *answer) setReset(d *decision.Decision) {
	wait := d.ResetAfter
	if d.Limited && d.RetryAfter > 0 {
		wait = d.RetryAfter
	}
	if wait <= 0 {
		return
	}
	a.reset.Seconds = int64((wait-1)/time.Second) + 1
	a.status.DurationUntilReset = &a.reset
}

func clamp(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// decidingLimit returns the amount that a status describes: that of the deciding limit, or of a shadow limit if no live
// limit applies. It returns nil if no limit applies.
func decidingLimit(r *decision.Result) *decision.Limit {
	for i := range r.Limits {
		l := &r.Limits[i]
		if !l.Flags.Has(decision.Shadow) && l.Name == r.Name && l.Decision == r.Decision {
			return l
		}
	}
	if r.Flags.Has(decision.Unmatched) && len(r.Limits) > 0 {
		return &r.Limits[0]
	}
	return nil
}

// ruleOf returns the limit for envoy.OverLimit: nil if it does not count.
func (a *answer) ruleOf() *rules.Limit {
	if a.special == nil {
		return nil
	}
	return a.special.limit
}

// statusOf converts the error reply of a command.
func statusOf(err error) error {
	var reply *decision.Error
	switch {
	case !errors.As(err, &reply) || reply.Unavailable():
		return status.Error(codes.Unavailable, err.Error())
	case reply.Unauthenticated():
		return status.Error(codes.Unauthenticated, reply.Message)
	case reply.Denied():
		return status.Error(codes.PermissionDenied, reply.Message)
	}
	return status.Error(codes.InvalidArgument, reply.Message)
}
