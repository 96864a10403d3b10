package grpcedge

import (
	"math"
	"sync"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/edge/decision"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/rules"
	"github.com/throttledhq/throttled/rules/envoy"
)

// maxDescriptors is the maximum number of descriptors of a request. A small message can have thousands.
const maxDescriptors = 128

// plan is an RLS request in the form in which it is decided. It is reused for other requests.
type plan struct {
	domain      *domainRules // nil if the rules have no such domain
	descriptors []descriptor
	checks      []decision.Request
	overrides   []override
	checked     []decision.Result // of checks
	overridden  []decision.Result // of overrides
	entries     []envoy.Entry     // of one descriptor
	pairs       []string          // of all checks
	matcher     matcher
}

// descriptor is a descriptor of a request.
type descriptor struct {
	source source
	at     int   // index in the list of the source
	hits   int64 // units to charge; 0 reads the state, a negative number refunds
}

// source is the origin of the limit of a descriptor.
type source uint8

const (
	fromNothing  source = iota // no limit applies: the domain is unknown, or another limit replaces that of the descriptor
	fromRules                  // decided by CL.CHECK
	fromOverride               // decided by CL.WINDOW, because the descriptor has a limit
)

var plans = sync.Pool{New: func() any { return new(plan) }}

// maxKept is the maximum number of attributes of a plan that is kept for later requests.
const maxKept = 256

// release keeps the plan for later requests, without references to this one.
func (p *plan) release() {
	if cap(p.pairs) > maxKept {
		return
	}
	clear(p.pairs)
	clear(p.entries[:cap(p.entries)])
	clear(p.checks)
	clear(p.overrides)
	p.matcher.clear()
	p.domain, p.pairs, p.entries = nil, p.pairs[:0], p.entries[:0]
	p.checks, p.overrides, p.descriptors = p.checks[:0], p.overrides[:0], p.descriptors[:0]
	plans.Put(p)
}

// build sets the plan to a request. The error is a status.
func (p *plan) build(req *pb.RateLimitRequest, domain *domainRules, o *options.Options) error {
	p.domain = domain
	for i, d := range req.GetDescriptors() {
		hits, err := hitsOf(req, d, o)
		if err != nil {
			return status.Errorf(status.Code(err), "descriptor %d: %s", i+1, status.Convert(err).Message())
		}
		x := descriptor{hits: hits}
		switch {
		case domain == nil: // the service ignores the limits of descriptors too
		case d.GetLimit() != nil:
			x.source, x.at = fromOverride, len(p.overrides)
			limit, err := newOverride(req.GetDomain(), d, hits)
			if err != nil {
				return status.Errorf(codes.InvalidArgument, "descriptor %d: %v", i+1, err)
			}
			p.overrides = append(p.overrides, limit)
		default:
			x.source, x.at = fromRules, len(p.checks)
			p.addCheck(req.GetDomain(), d, hits)
		}
		p.descriptors = append(p.descriptors, x)
	}
	p.sliceChecks()
	if domain != nil && domain.replaces {
		return p.dropReplaced()
	}
	return nil
}

// hitsOf returns the units of a descriptor. The error is a status.
func hitsOf(req *pb.RateLimitRequest, d *common.RateLimitDescriptor, o *options.Options) (int64, error) {
	hits := uint64(max(1, req.GetHitsAddend()))
	if own := d.GetHitsAddend(); own != nil {
		hits = own.GetValue()
	}
	switch {
	case hits > math.MaxInt64:
		return 0, status.Errorf(codes.InvalidArgument, "hits_addend %d is too large: the maximum is %d", hits, int64(math.MaxInt64))
	case !d.GetIsNegativeHits():
		return int64(hits), nil
	case !o.GRPCNegativeHits:
		return 0, status.Error(codes.Unimplemented, "is_negative_hits is disabled: to permit refunds, start throttled with --grpc-negative-hits yes")
	}
	return -int64(hits), nil
}

// addCheck adds the CL.CHECK of a descriptor. Its pairs are set by sliceChecks, because p.pairs may be moved.
func (p *plan) addCheck(domain string, d *common.RateLimitDescriptor, hits int64) {
	p.entries = p.entries[:0]
	for _, e := range d.GetEntries() {
		p.entries = append(p.entries, envoy.Entry{Key: e.GetKey(), Value: e.GetValue()})
	}
	from := len(p.pairs)
	p.pairs = envoy.AppendPairs(p.pairs, p.entries)
	p.checks = append(p.checks, decision.Request{Domain: domain, Pairs: p.pairs[from:], Cost: hits, Peek: hits == 0})
}

// sliceChecks sets the pairs of all checks.
func (p *plan) sliceChecks() {
	rest := p.pairs
	for i := range p.checks {
		n := len(p.checks[i].Pairs)
		p.checks[i].Pairs, rest = rest[:n:n], rest[n:]
	}
}

// dropReplaced drops the checks of descriptors whose limits are replaced by those of other descriptors. A limit that
// admits all requests replaces others, and is not replaced.
func (p *plan) dropReplaced() error {
	limits, err := p.matcher.limits(p.domain.compiled, p.checks)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	replaced := envoy.Replaced(limits)
	kept := p.checks[:0]
	for i := range p.descriptors {
		d := &p.descriptors[i]
		if d.source != fromRules {
			continue
		}
		if replaced[d.at] && !isUnlimited(limits[d.at]) {
			d.source = fromNothing
			continue
		}
		kept = append(kept, p.checks[d.at])
		d.at = len(kept) - 1
	}
	p.checks = kept
	return nil
}

func isUnlimited(l *rules.Limit) bool {
	return len(l.Allow.Amounts) == 1 && l.Allow.Amounts[0].Kind == rules.Unlimited
}

// decide runs the commands of the plan. The error is a status; the commands may or may not have been run then. Gateways repeat
// requests after Unavailable, so a plan with a refund fails with Unknown instead: its units could be restored twice.
func (p *plan) decide(c *decision.Checker, as acl.Login) error {
	err := p.run(c, as)
	if status.Code(err) == codes.Unavailable && p.refunds() {
		return status.Error(codes.Unknown, status.Convert(err).Message())
	}
	return err
}

// refunds reports whether a descriptor refunds units.
func (p *plan) refunds() bool {
	for i := range p.descriptors {
		if p.descriptors[i].hits < 0 {
			return true
		}
	}
	return false
}

// run runs the commands of the plan. The error is a status.
func (p *plan) run(c *decision.Checker, as acl.Login) error {
	p.checked = grow(p.checked, len(p.checks))
	p.overridden = grow(p.overridden, len(p.overrides))
	if len(p.checks) > 0 {
		if err := c.Check(as, p.checks, p.checked); err != nil {
			return status.Error(codes.Unavailable, err.Error())
		}
	}
	if err := decideOverrides(c, as, p.overrides, p.overridden); err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	return p.firstError()
}

// firstError returns the first error reply as a status.
func (p *plan) firstError() error {
	for _, list := range [...][]decision.Result{p.checked, p.overridden} {
		for i := range list {
			if list[i].Err != nil {
				return statusOf(list[i].Err)
			}
		}
	}
	return nil
}

// grow returns a list with n results. It keeps the memory of earlier results.
func grow(list []decision.Result, n int) []decision.Result {
	for cap(list) < n {
		list = append(list[:cap(list)], decision.Result{})
	}
	return list[:n]
}

// matcher finds the limits of descriptors before they are decided.
type matcher struct {
	matches rules.Matches
	bytes   []byte
	pairs   [][]byte
	found   []*rules.Limit
}

// limits returns the limit of each check, or nil if none applies. The result is valid until the next call.
func (m *matcher) limits(domain *rules.CompiledDomain, checks []decision.Request) ([]*rules.Limit, error) {
	m.found = m.found[:0]
	for i := range checks {
		if err := domain.Match(m.convert(checks[i].Pairs), time.Now(), &m.matches); err != nil {
			return nil, err
		}
		var limit *rules.Limit
		if len(m.matches.List) > 0 {
			limit = m.matches.List[0].Limit
		}
		m.found = append(m.found, limit)
	}
	return m.found, nil
}

// convert returns pairs as bytes.
func (m *matcher) convert(pairs []string) [][]byte {
	m.bytes, m.pairs = m.bytes[:0], m.pairs[:0]
	for _, p := range pairs {
		m.bytes = append(m.bytes, p...)
	}
	rest := m.bytes
	for _, p := range pairs {
		m.pairs = append(m.pairs, rest[:len(p):len(p)])
		rest = rest[len(p):]
	}
	return m.pairs
}

func (m *matcher) clear() {
	m.matches.Reset()
	clear(m.found)
	m.found = m.found[:0]
}
