package grpcedge

import (
	"fmt"
	"strconv"
	"strings"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/edge/decision"
)

// override is a limit that is part of a descriptor. It takes precedence over the rules. It is a fixed window, which
// begins at a multiple of its length since 1970-01-01 UTC.
type override struct {
	key    string
	limit  uint32
	unit   pb.RateLimitResponse_RateLimit_Unit
	period string
	hits   int64
}

// overrideUnit is a unit of a limit of a descriptor, as in the reply and as in CL.WINDOW.
type overrideUnit struct {
	unit   pb.RateLimitResponse_RateLimit_Unit
	period string
}

var overrideUnits = map[typev3.RateLimitUnit]overrideUnit{
	typev3.RateLimitUnit_SECOND: {pb.RateLimitResponse_RateLimit_SECOND, "1s"},
	typev3.RateLimitUnit_MINUTE: {pb.RateLimitResponse_RateLimit_MINUTE, "1m"},
	typev3.RateLimitUnit_HOUR:   {pb.RateLimitResponse_RateLimit_HOUR, "1h"},
	typev3.RateLimitUnit_DAY:    {pb.RateLimitResponse_RateLimit_DAY, "1d"},
	typev3.RateLimitUnit_MONTH:  {pb.RateLimitResponse_RateLimit_MONTH, "30d"},
	typev3.RateLimitUnit_YEAR:   {pb.RateLimitResponse_RateLimit_YEAR, "365d"},
}

func newOverride(domain string, d *common.RateLimitDescriptor, hits int64) (override, error) {
	limit := d.GetLimit()
	u, known := overrideUnits[limit.GetUnit()]
	if !known {
		return override{}, fmt.Errorf("limit: unit %v is not supported: use SECOND, MINUTE, HOUR, DAY, MONTH or YEAR", limit.GetUnit())
	}
	return override{overrideKey(domain, u.period, d), limit.GetRequestsPerUnit(), u.unit, u.period, hits}, nil
}

// keyEscaper escapes the characters that separate the parts of a key.
var keyEscaper = strings.NewReplacer("%", "%25", "|", "%7C", "=", "%3D", ",", "%2C")

// overrideKey returns the key of the window of a descriptor: "rls", domain, period and entries. Descriptors with the
// same entries share a window if they have the same unit.
func overrideKey(domain, period string, d *common.RateLimitDescriptor) string {
	var b strings.Builder
	b.WriteString("rls|")
	_, _ = keyEscaper.WriteString(&b, domain) // a strings.Builder returns no error
	b.WriteByte('|')
	b.WriteString(period)
	for i, e := range d.GetEntries() {
		b.WriteByte("|,"[min(i, 1)])
		_, _ = keyEscaper.WriteString(&b, e.GetKey())
		b.WriteByte('=')
		_, _ = keyEscaper.WriteString(&b, e.GetValue())
	}
	return b.String()
}

// command returns the command that charges hits units. CL.WINDOW refuses the limit 0: the state is only read then.
func (o *override) command(hits int64) []string {
	limit := uint64(max(1, o.limit)) // with 0, the reply is replaced
	if o.limit == 0 {
		hits = 0
	}
	return []string{"CL.WINDOW", o.key, strconv.FormatUint(limit, 10), o.period, strconv.FormatInt(hits, 10), "FIXED"}
}

// decideOverrides decides overrides, and stores the decisions in results.
//
// As in the service, a refused request is charged too: it uses up the remaining units, so that a client that keeps sending is
// refused until the window ends. This takes a second command, which does not run in one atomic step with the first.
func decideOverrides(c *decision.Checker, as acl.Login, overrides []override, results []decision.Result) error {
	if len(overrides) == 0 {
		return nil
	}
	commands := make([][]string, len(overrides))
	for i := range overrides {
		commands[i] = overrides[i].command(overrides[i].hits)
	}
	if err := c.Limit(as, commands, results); err != nil {
		return err
	}
	for i := range results {
		if o, r := &overrides[i], &results[i]; o.limit == 0 && r.Err == nil {
			r.Decision, r.Flags = decision.Decision{Limited: o.hits > 0, RetryAfter: -1}, 0
		}
	}
	return fillOverrides(c, as, overrides, results)
}

// fillOverrides charges the overrides that have refused a request with the units that remain.
func fillOverrides(c *decision.Checker, as acl.Login, overrides []override, results []decision.Result) error {
	var commands [][]string
	var refused []*decision.Result
	for i := range results {
		if r := &results[i]; r.Limited && r.Remaining > 0 {
			commands = append(commands, overrides[i].command(r.Remaining))
			refused = append(refused, r)
		}
	}
	if len(commands) == 0 {
		return nil
	}
	filled := make([]decision.Result, len(commands))
	if err := c.Limit(as, commands, filled); err != nil {
		return err
	}
	for i, r := range refused {
		r.Remaining, r.ResetAfter = 0, max(r.ResetAfter, filled[i].ResetAfter)
	}
	return nil
}
