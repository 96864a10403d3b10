package headers

import (
	"strconv"

	"github.com/throttledhq/throttled/edge/decision"
)

// maxInteger is the largest integer of RFC 9651.
const maxInteger = 999_999_999_999_999

// defaultName is the name of the policy of the default of a domain.
const defaultName = "default"

// isPolicy reports whether a decision with its flags is shown. A refusal with FailOpen is shown: another limit than that of the
// refusal was not decided.
func isPolicy(d *decision.Decision, flags decision.Flags) bool {
	undecided := flags.Has(decision.FailClosed) || flags.Has(decision.FailOpen) && !d.Limited
	return d.Limit != decision.Unlimited && !undecided
}

// isShown reports whether an amount is a policy.
func isShown(l *decision.Limit) bool {
	return isPolicy(&l.Decision, l.Flags) && !l.Flags.Has(decision.Shadow)
}

// decidingLimit returns the position of the deciding amount, or -1 if the result has none.
func decidingLimit(r *decision.Result) int {
	found := -1
	for i := range r.Limits {
		l := &r.Limits[i]
		if l.Name != r.Name || l.Flags.Has(decision.Shadow) {
			continue
		}
		if l.Decision == r.Decision {
			return i
		}
		if found < 0 {
			found = i
		}
	}
	return found
}

// appendPolicies appends RateLimit-Policy, unless there is no policy. If the result has no deciding amount, as that of
// CL.THROTTLE, the decision is the only policy.
func appendPolicies(dst []byte, s *spans, r *decision.Result, deciding int) []byte {
	begun := false
	for i := range r.Limits {
		l := &r.Limits[i]
		if !isShown(l) {
			continue
		}
		if begun {
			dst = append(dst, ", "...)
		} else {
			dst, begun = s.begin(dst, "RateLimit-Policy"), true
		}
		dst = appendParameter(appendName(dst, r, i), 'q', l.Limit)
		if l.Period > 0 {
			dst = appendParameter(dst, 'w', seconds(l.Period))
		}
	}
	if !begun && deciding < 0 && isPolicy(&r.Decision, r.Flags) {
		dst, begun = s.begin(dst, "RateLimit-Policy"), true
		dst = appendParameter(appendName(dst, r, deciding), 'q', r.Limit)
	}
	if begun {
		dst = s.end(dst)
	}
	return dst
}

// appendRateLimit appends RateLimit.
func appendRateLimit(dst []byte, s *spans, r *decision.Result, deciding int) []byte {
	dst = appendName(s.begin(dst, "RateLimit"), r, deciding)
	dst = appendParameter(dst, 'r', r.Remaining)
	if t := effectiveWindow(&r.Decision); t > 0 {
		dst = appendParameter(dst, 't', t)
	}
	return s.end(dst)
}

// effectiveWindow returns the seconds for which the remaining units must suffice, or 0 if they do not
// change.
func effectiveWindow(d *decision.Decision) int64 {
	if wait, ok := RetryAfter(d); ok {
		return wait
	}
	return seconds(d.ResetAfter)
}

// appendParameter appends a parameter. Larger values than RFC 9651 allows are replaced by the largest one.
func appendParameter(dst []byte, name byte, value int64) []byte {
	return strconv.AppendInt(append(dst, ';', name, '='), min(max(value, 0), maxInteger), 10)
}

// appendName appends the name of the policy of an amount, as a string of RFC 9651 that is also a string of JSON. A negative
// position is that of the default.
func appendName(dst []byte, r *decision.Result, at int) []byte {
	dst = append(dst, '"')
	switch {
	case at < 0 || r.Limits[at].Name == "":
		dst = append(dst, defaultName...)
	default:
		dst = appendString(dst, r.Limits[at].Name)
	}
	if at >= 0 && !isFirst(r, at) {
		dst = appendString(append(dst, ':'), r.Limits[at].Window)
	}
	return append(dst, '"')
}

// isFirst reports whether an amount is the first policy of its limit.
func isFirst(r *decision.Result, at int) bool {
	for i := range at {
		if r.Limits[i].Name == r.Limits[at].Name && isShown(&r.Limits[i]) {
			return false
		}
	}
	return true
}

// appendString appends the content of a string of RFC 9651. Bytes that it cannot have are encoded as in a URI.
func appendString(dst []byte, text string) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ' || c > '~':
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
