package grpcedge

import (
	"context"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/throttledhq/throttled/edge/decision"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/rules"
	"github.com/throttledhq/throttled/rules/envoy"
	"github.com/throttledhq/throttled/ruleset"
	"github.com/throttledhq/throttled/tracing"
)

// rateLimits is the rate limit service.
type rateLimits struct {
	pb.UnimplementedRateLimitServiceServer
	*core
	cache ruleCache
}

// ShouldRateLimit decides the descriptors of a request.
func (s *rateLimits) ShouldRateLimit(ctx context.Context, req *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	if err := validate(ctx, req); err != nil {
		return nil, err
	}
	set := s.Rules()
	if set == nil { // Unavailable makes a gateway retry with another node: a node that was started shortly before may not have the rules yet
		return nil, status.Error(codes.Unavailable, ruleset.NoRules(s.Options.Upstream).Error())
	}
	domain := s.cache.domain(set, req.GetDomain())
	if domain == nil {
		if login := loginOf(ctx); !s.Access.MayCheck(login, req.GetDomain()) { // the plan has no command that would be refused
			return nil, status.Errorf(codes.PermissionDenied, "user %q has no permission to run CL.CHECK in the domain %q", login.Name(), clip(req.GetDomain()))
		}
		s.warn("rls-domain", "rate limit request admitted: the rules have no such domain", "domain", clip(req.GetDomain()))
	}
	p := plans.Get().(*plan)
	defer p.release()
	if err := p.build(req, domain, s.Options); err != nil {
		return nil, err
	}
	if err := p.decide(s.Checker, loginOf(ctx)); err != nil {
		return nil, err
	}
	if s.Trace != nil && domain != nil {
		p.trace(ctx, req.GetDomain())
	}
	return p.respond(req, s.Options), nil
}

// trace adds the decision to the span of the call: that of the first descriptor that is refused, or of the first one.
func (p *plan) trace(ctx context.Context, domain string) {
	var deciding *decision.Result
	for i := range p.checked {
		if r := &p.checked[i]; deciding == nil || r.Limited && !deciding.Limited {
			deciding = r
		}
	}
	if deciding != nil {
		tracing.Decided(ctx, domain, deciding.Word(), deciding.Name)
	}
}

// validate refuses requests that the service refuses. A request whose deadline has passed must not be charged, since
// Envoy has already decided it.
func validate(ctx context.Context, req *pb.RateLimitRequest) error {
	switch n := len(req.GetDescriptors()); {
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case req.GetDomain() == "":
		return status.Error(codes.InvalidArgument, "rate limit domain must not be empty")
	case n == 0:
		return status.Error(codes.InvalidArgument, "rate limit descriptor list must not be empty")
	case n > maxDescriptors:
		return status.Errorf(codes.InvalidArgument, "%d descriptors: a request has at most %d", n, maxDescriptors)
	}
	return nil
}

// respond returns the response to a request whose commands have been run.
func (p *plan) respond(req *pb.RateLimitRequest, o *options.Options) *pb.RateLimitResponse {
	answers := p.answers()
	resp := &pb.RateLimitResponse{
		OverallCode: pb.RateLimitResponse_OK,
		Statuses:    make([]*pb.RateLimitResponse_DescriptorStatus, len(answers)),
	}
	for i := range answers {
		resp.Statuses[i] = &answers[i].status
	}
	if isRefused(answers) {
		resp.OverallCode = pb.RateLimitResponse_OVER_LIMIT
	}
	if o.RLSHeaders {
		addHeaders(resp, answers)
	}
	if o.RLSMetadata {
		resp.DynamicMetadata = metadataOf(req, answers)
	}
	return resp
}

// answers returns the answer of each descriptor.
func (p *plan) answers() []answer {
	answers := make([]answer, len(p.descriptors))
	for i := range answers {
		d, a := &p.descriptors[i], &answers[i]
		switch d.source {
		case fromRules:
			a.setRules(&p.checked[d.at], p.domain, d.hits)
		case fromOverride:
			a.setOverride(&p.overridden[d.at], &p.overrides[d.at])
		default:
			a.setNone()
		}
	}
	return answers
}

// isRefused reports whether a request is refused.
func isRefused(answers []answer) bool {
	if len(answers) == 1 {
		return isOverLimit(&answers[0])
	}
	var fewLimits [8]*rules.Limit // most requests need no allocation
	var fewRefused [8]bool
	limits, refused := fewLimits[:0], fewRefused[:0]
	for i := range answers {
		limits = append(limits, answers[i].ruleOf())
		refused = append(refused, isOverLimit(&answers[i]))
	}
	return envoy.OverLimit(limits, refused)
}

func isOverLimit(a *answer) bool { return a.status.Code == pb.RateLimitResponse_OVER_LIMIT }

// clip shortens a text of a client for the log.
func clip(text string) string { return text[:min(len(text), 64)] }
