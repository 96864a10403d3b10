package server

import (
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/resp"
)

// parseAll is the parseFunc of CL.ALL quantity SPEC [SPEC ...] [MS]. A SPEC consists of the word of a limit form,
// such as WINDOW, and its parameters. The requests form one group.
func parseAll(dst []limiter.Request, args [][]byte, logEntries int64) ([]limiter.Request, time.Duration, error) {
	quantity, ok := resp.ParseSigned(args[1])
	if !ok {
		return dst, 0, errQuantityOfAll(args[1])
	}
	specs, unit := cutUnit(args[2:])
	extended := dst
	var before *limitForm // form of the previous limit if that limit could have a mode but has none, otherwise nil
	for len(specs) > 0 {
		at := len(extended) - len(dst)
		f := limitFormOf(specs[0])
		switch {
		case at == limiter.MaxGroup:
			return dst, 0, errManyLimits
		case f == nil:
			return dst, 0, errLimitWord(at, specs[0], before)
		case len(specs) <= f.size:
			return dst, 0, f.errShort(at, specs[1:])
		}
		extended = append(extended, limiter.Request{Quantity: quantity})
		req, given := &extended[len(extended)-1], specs[1+f.size:]
		rest, err := f.parseLimit(req, specs[1:1+f.size], given, logEntries)
		if err != nil {
			return dst, 0, errOfLimit(at, specs[1], err)
		}
		before = nil
		if len(rest) == len(given) && len(f.modes) > 1 {
			before = f
		}
		req.Linked = len(rest) > 0
		specs = rest
	}
	return extended, unit, nil
}

// explainAll returns an error that names the incomplete limit. It returns nil if no word follows the word of the first
// limit.
func explainAll(args [][]byte) error {
	if len(args) < 4 {
		return nil
	}
	_, _, err := parseAll(nil, args, 1)
	return err
}

// replyAll appends the five integers of the limit that determines the result, followed by an array of
// integers for each limit.
func replyAll(out *resp.Reply, unit time.Duration, reqs []limiter.Request, decisions []limiter.Decision) {
	out.Array(5 + len(decisions))
	replyFive(out, unit, deciding(decisions))
	for i := range decisions {
		replyDecision(out, unit, reqs[i].Kind, &decisions[i])
	}
}

// deciding returns the decision that determines the result of a group: the first of the decisions that no other
// decision outranks.
func deciding(out []limiter.Decision) *limiter.Decision {
	d := &out[0]
	for i := range out {
		if outranks(&out[i], d) {
			d = &out[i]
		}
	}
	return d
}

// outranks reports whether a has a higher rank than b. A refusal outranks an admission. Of two refusals, the one with
// the longer wait has the higher rank, since a retry succeeds only after the longest wait. Of two admissions, the one
// with fewer remaining units has the higher rank. If they have the same number of remaining units, the one that takes
// longer to reset has the higher rank.
func outranks(a, b *limiter.Decision) bool {
	switch {
	case a.Limited != b.Limited:
		return a.Limited
	case a.Limited:
		// As an unsigned integer, NoRetry is the longest wait.
		return uint64(a.RetryAfter) > uint64(b.RetryAfter)
	case a.Remaining != b.Remaining:
		return a.Remaining < b.Remaining
	}
	return a.ResetAfter > b.ResetAfter
}
