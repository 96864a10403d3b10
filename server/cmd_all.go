package server

import (
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/resp"
)

// parseAll is the parseFunc of CL.ALL quantity SPEC [SPEC ...] [MS], where a SPEC is the word of a form of limit and its
// parameters. The requests form one group.
func parseAll(dst []limiter.Request, args [][]byte, logEntries int64) ([]limiter.Request, time.Duration, error) {
	quantity, ok := resp.ParseSigned(args[1])
	if !ok {
		return dst, 0, errNotInteger
	}
	specs, unit := cutUnit(args[2:])
	extended := dst
	for len(specs) > 0 {
		if len(extended)-len(dst) == limiter.MaxGroup {
			return dst, 0, errManyLimits
		}
		f := limitFormOf(specs[0])
		if f == nil || len(specs) <= f.size {
			return dst, 0, errSyntax
		}
		extended = append(extended, limiter.Request{Quantity: quantity})
		req := &extended[len(extended)-1]
		rest, err := f.parseLimit(req, specs[1:1+f.size], specs[1+f.size:], logEntries)
		if err != nil {
			return dst, 0, err
		}
		req.Linked = len(rest) > 0
		specs = rest
	}
	return extended, unit, nil
}

// replyAll answers with the five integers of the limit that decides, and then, for each
// limit, with an array of its own integers.
func (c *client) replyAll(unit time.Duration, reqs []limiter.Request, out []limiter.Decision) {
	d := deciding(out)
	c.countLimited(d)
	c.out.Array(5 + len(out))
	c.replyFive(unit, d)
	for i := range out {
		c.replyDecision(unit, reqs[i].Kind, &out[i])
	}
}

// deciding returns the decision of a group that says what the whole comes to: the first of
// those that outrank all others.
func deciding(out []limiter.Decision) *limiter.Decision {
	d := &out[0]
	for i := range out {
		if outranks(&out[i], d) {
			d = &out[i]
		}
	}
	return d
}

// outranks reports whether a says more of its group than b. A refusal says more than an
// admission, and the longer wait more than the shorter: that is when all would pass. Among
// admissions, it is the limit that is closest to its end.
func outranks(a, b *limiter.Decision) bool {
	switch {
	case a.Limited != b.Limited:
		return a.Limited
	case a.Limited:
		// Unsigned, NoRetry is the longest wait of all.
		return uint64(a.RetryAfter) > uint64(b.RetryAfter)
	case a.Remaining != b.Remaining:
		return a.Remaining < b.Remaining
	}
	return a.ResetAfter > b.ResetAfter
}
