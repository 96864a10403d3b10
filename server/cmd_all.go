package server

import (
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/resp"
)

// parseAll is the parseFunc of CL.ALL quantity SPEC [SPEC ...] [MS]. A SPEC consists of the word of a limit form,
// such as WINDOW, and its parameters. The requests form one group.
func parseAll(p *parsing, args [][]byte) error {
	quantity, ok := resp.ParseSigned(args[1])
	if !ok {
		return errQuantityOfAll(args[1])
	}
	var specs [][]byte
	specs, p.unit = cutUnit(args[2:])
	var before *limitForm // form of the previous limit if that limit could have a mode but has none, otherwise nil
	for at := 0; len(specs) > 0; at++ {
		f := limitFormOf(specs[0])
		switch {
		case at == limiter.MaxGroup:
			return errManyLimits
		case f == nil:
			return errLimitWord(at, specs[0], before)
		case len(specs) <= f.size:
			return f.errShort(at, specs[1:])
		}
		req, given := p.add(quantity), specs[1+f.size:]
		rest, err := f.parseLimit(req, specs[1:1+f.size], given, p.logEntries)
		if err != nil {
			return errOfLimit(at, specs[1], err)
		}
		before = nil
		if len(rest) == len(given) && len(f.modes) > 1 {
			before = f
		}
		req.Linked = len(rest) > 0
		specs = rest
	}
	return nil
}

// explainAll returns an error that names the incomplete limit. It returns nil if no word follows the word of the first
// limit.
func explainAll(args [][]byte) error {
	if len(args) < 4 {
		return nil
	}
	return parseAll(&parsing{logEntries: 1}, args)
}

// replyAll appends the five integers of the limit that determines the result, followed by an array of
// integers for each limit.
func replyAll(out *resp.Reply, b *batch, call *call) {
	reqs, decisions := b.requests(call)
	out.Array(5 + len(decisions))
	replyFive(out, call.unit, deciding(decisions))
	for i := range decisions {
		replyDecision(out, call.unit, reqs[i].Kind, &decisions[i])
	}
}

// deciding returns the decision that determines the result of a group: the first of the decisions that no other
// decision outranks.
func deciding(out []limiter.Decision) *limiter.Decision {
	d := &out[0]
	for i := range out {
		if out[i].Outranks(d) {
			d = &out[i]
		}
	}
	return d
}
