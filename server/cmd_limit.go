package server

import (
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/resp"
	"github.com/throttledhq/throttled/window"
)

// parse is the parseFunc of a limit form: CL.<WORD> key ... [quantity] [mode] [MS].
func (f *limitForm) parse(p *parsing, args [][]byte) error {
	var rest [][]byte
	rest, p.unit = cutUnit(args[1+f.size:])
	if len(rest) > 1 && len(f.modes) == 1 {
		return errArity("cl." + f.word)
	}
	quantity := int64(1)
	// If the form has several modes, an argument that begins with a letter is a mode and not a quantity.
	if len(rest) > 0 && (len(f.modes) == 1 || !beginsWord(rest[0])) {
		var ok bool
		if quantity, ok = resp.ParseSigned(rest[0]); !ok {
			return errQuantity(rest[0])
		}
		rest = rest[1:]
	}
	left, err := f.parseLimit(p.add(quantity), args[1:1+f.size], rest, p.logEntries)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return f.errUnexpectedArgument(left[0], len(left) == len(rest))
	}
	return nil
}

// parseLimit sets the kind, key and limit of req. params are the arguments described by f.args. rest are the
// arguments after params, and may begin with a mode. parseLimit returns the arguments after the mode.
func (f *limitForm) parseLimit(req *limiter.Request, params, rest [][]byte, logEntries int64) ([][]byte, error) {
	mode, parts := &f.modes[0], int64(0)
	if len(rest) > 0 && len(f.modes) > 1 {
		var err error
		if mode, parts, rest, err = f.cutMode(rest); err != nil {
			return nil, err
		}
	}
	first, firstFits := resp.ParseSigned(params[1])
	second, secondFits := int64(0), true
	if len(params) > 3 {
		second, secondFits = resp.ParseSigned(params[2])
	}
	period, periodFits := parsePeriod(params[len(params)-1])
	if !firstFits || !secondFits || !periodFits {
		return nil, f.errParams(params)
	}
	limit, err := mode.compile(limitParams{first, second, period, parts, logEntries})
	if err != nil {
		return nil, f.errParams(params)
	}
	req.Kind, req.Key, req.Limit = mode.kind, params[0], limit
	return rest, nil
}

// cutUnit removes MS from the end of args, and returns the time unit of the reply.
func cutUnit(args [][]byte) ([][]byte, time.Duration) {
	if last := len(args) - 1; last >= 0 && spells(args[last], "ms") {
		return args[:last], time.Millisecond
	}
	return args, time.Second
}

// cutMode removes a mode from the beginning of args, which must not be empty. If the mode is counted, such as
// BUCKETS, cutMode also removes the number that follows it, and returns the number in parts. If args do not begin
// with a mode, cutMode returns the first mode of the form.
func (f *limitForm) cutMode(args [][]byte) (mode *limitMode, parts int64, rest [][]byte, err error) {
	for i := range f.modes {
		m := &f.modes[i]
		switch {
		case !spells(args[0], m.word):
		case !m.counted:
			return m, 0, args[1:], nil
		case len(args) == 1:
			return nil, 0, nil, m.errNoParts()
		default:
			parts, ok := resp.ParseSigned(args[1])
			if !ok || parts < 1 || parts > window.MaxParts {
				return nil, 0, nil, m.errParts(args[1])
			}
			return m, parts, args[2:], nil
		}
	}
	return &f.modes[0], 0, args, nil
}

// timeUnits lists the unit suffixes of a period. "ms" must precede "s", since the first match is used.
var timeUnits = [...]struct {
	word string
	unit time.Duration
}{
	{"ms", time.Millisecond},
	{"s", time.Second},
	{"m", time.Minute},
	{"h", time.Hour},
	{"d", 24 * time.Hour},
}

// parsePeriod parses an integer followed by a unit. Without a unit, the integer is in seconds.
func parsePeriod(b []byte) (limiter.Period, bool) {
	digits, unit := b, time.Second
	if len(b) > 0 && beginsWord(b[len(b)-1:]) {
		for _, u := range timeUnits {
			if n := len(b) - len(u.word); n > 0 && spells(b[n:], u.word) {
				digits, unit = b[:n], u.unit
				break
			}
		}
	}
	n, ok := resp.ParseSigned(digits)
	return limiter.Period{N: n, Unit: unit}, ok
}

// spells reports whether b equals word, ignoring case. word is in lower case.
func spells(b []byte, word string) bool {
	if len(b) != len(word) {
		return false
	}
	for i := range b {
		if b[i]|('a'-'A') != word[i] {
			return false
		}
	}
	return true
}

// beginsWord reports whether b begins with a letter. If so, b is not a number.
func beginsWord(b []byte) bool {
	return len(b) > 0 && b[0]|('a'-'A') >= 'a' && b[0]|('a'-'A') <= 'z'
}

// replyLimit appends the reply to a command for one limit.
func replyLimit(out *resp.Reply, b *batch, call *call) {
	replyDecision(out, call.unit, b.reqs[call.from].Kind, &b.out[call.from])
}

// replyDecision appends the five integers of a decision. For a LeakyBucket it appends a sixth integer, the time to
// wait, which is always in milliseconds.
func replyDecision(out *resp.Reply, unit time.Duration, kind limiter.Kind, d *limiter.Decision) {
	if kind != limiter.LeakyBucket {
		out.Array(5)
		replyFive(out, unit, d)
		return
	}
	out.Array(6)
	replyFive(out, unit, d)
	out.Int(limiter.Ceil(d.Wait, time.Millisecond))
}

func replyFive(out *resp.Reply, unit time.Duration, d *limiter.Decision) {
	limited := int64(0)
	if d.Limited {
		limited = 1
	}
	out.Int(limited)
	out.Int(d.Limit)
	replyThree(out, unit, d)
}

// replyThree appends the last three of the five integers of a decision.
func replyThree(out *resp.Reply, unit time.Duration, d *limiter.Decision) {
	out.Int(d.Remaining)
	if d.RetryAfter == limiter.NoRetry {
		out.Raw(noRetry)
	} else {
		out.Int(limiter.Ceil(d.RetryAfter, unit))
	}
	if unit == time.Second { // with a constant unit, the division is faster
		out.Int(limiter.Ceil(d.ResetAfter, time.Second))
		return
	}
	out.Int(limiter.Ceil(d.ResetAfter, unit))
}

// noRetry is the integer for limiter.NoRetry in all units.
var noRetry = []byte(":-1\r\n")
