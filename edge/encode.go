package edge

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/throttledhq/throttled/edge/decision"
	"github.com/throttledhq/throttled/edge/headers"
	"github.com/throttledhq/throttled/ruleset"
)

// appendMembers appends the members of the JSON object of a decision by rules. In a refusal, retry_after_seconds is one of
// the members of the problem.
func appendMembers(dst []byte, r *decision.Result) []byte {
	dst = appendNumbers(dst, r)
	dst = appendText(append(dst, `,"name":`...), r.Name)
	dst = appendFlags(append(dst, `,"flags":`...), r.Flags)
	dst = append(dst, `,"limits":[`...)
	for i := range r.Limits {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendLimit(dst, &r.Limits[i])
	}
	return strconv.AppendUint(append(dst, `],"version":`...), r.Version, 10)
}

// appendFive appends the members of the reply to a limiter command. The member flags is absent if there are none.
func appendFive(dst []byte, r *decision.Result) []byte {
	dst = appendNumbers(dst, r)
	if r.Flags != 0 {
		dst = appendFlags(append(dst, `,"flags":`...), r.Flags)
	}
	return dst
}

// appendNumbers appends the members of the five integers of a decision.
func appendNumbers(dst []byte, r *decision.Result) []byte {
	dst = appendState(dst, &r.Decision)
	seconds := int64((r.ResetAfter + time.Second - 1) / time.Second)
	return strconv.AppendInt(append(dst, `,"reset_after_seconds":`...), seconds, 10)
}

// appendState appends the members that decisions and amounts have. limit and remaining are absent if there is no limit, and
// retry_after_ms if the request was admitted or no wait helps.
func appendState(dst []byte, d *decision.Decision) []byte {
	dst = strconv.AppendBool(append(dst, `"allowed":`...), !d.Limited)
	if d.Limit != decision.Unlimited {
		dst = strconv.AppendInt(append(dst, `,"limit":`...), d.Limit, 10)
		dst = strconv.AppendInt(append(dst, `,"remaining":`...), d.Remaining, 10)
	}
	if d.Limited && d.RetryAfter >= 0 {
		dst = strconv.AppendInt(append(dst, `,"retry_after_ms":`...), d.RetryAfter.Milliseconds(), 10)
	}
	return strconv.AppendInt(append(dst, `,"reset_after_ms":`...), d.ResetAfter.Milliseconds(), 10)
}

func appendLimit(dst []byte, l *decision.Limit) []byte {
	dst = appendText(append(dst, `{"name":`...), l.Name)
	dst = appendText(append(dst, `,"window":`...), l.Window)
	dst = appendState(append(dst, ','), &l.Decision)
	if l.Wait > 0 {
		dst = strconv.AppendInt(append(dst, `,"wait_ms":`...), l.Wait.Milliseconds(), 10)
	}
	return append(appendFlags(append(dst, `,"flags":`...), l.Flags), '}')
}

func appendFlags(dst []byte, f decision.Flags) []byte {
	if f == 0 {
		return append(dst, "[]"...)
	}
	var memory [16]string
	dst = append(dst, '[')
	for i, name := range f.AppendNames(memory[:0]) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), name...), '"')
	}
	return append(dst, ']')
}

// appendText appends a JSON string. A text of printable ASCII needs no escapes, and no memory.
func appendText(dst []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(text) // never fails for a string
			return append(dst, quoted...)
		}
	}
	return append(append(append(dst, '"'), text...), '"')
}

// appendBatch appends the response to a batch. Each element is a decision, a refusal, or a problem, with the member status.
func appendBatch(dst []byte, results []decision.Result) []byte {
	dst = append(dst, `{"results":[`...)
	for i := range results {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendElement(dst, &results[i])
	}
	return append(dst, "]}"...)
}

func appendElement(dst []byte, r *decision.Result) []byte {
	var e *decision.Error
	switch {
	case errors.As(r.Err, &e) && e.Unavailable():
		p := undecided(e)
		return p.Append(dst)
	case r.Err != nil:
		status, word := http.StatusBadRequest, "invalid_request"
		switch {
		case e != nil && e.Unauthenticated():
			status, word = http.StatusUnauthorized, "unauthorized"
		case e != nil && e.Denied():
			status, word = http.StatusForbidden, "forbidden"
		}
		p := headers.Problem{Type: headers.TypeBlank, Title: http.StatusText(status), Status: status, Error: word, Message: messageOf(r.Err)}
		return p.Append(dst)
	case r.Limited:
		dst = headers.AppendRefusalMembers(append(dst, '{'), http.StatusTooManyRequests, r)
	default:
		dst = append(dst, `{"status":200`...)
	}
	return append(appendMembers(append(dst, ','), r), '}')
}

// appendRules appends a version of the rules.
func appendRules(dst []byte, v *ruleset.Version, text string) []byte {
	dst = strconv.AppendUint(append(dst, `{"version":`...), v.Number, 10)
	dst = appendText(append(dst, `,"author":`...), v.Author)
	dst = appendText(append(dst, `,"time":`...), v.Time.UTC().Format(time.RFC3339Nano))
	dst = appendText(append(dst, `,"hash":`...), v.Hash)
	dst = appendText(append(dst, `,"text":`...), text)
	return append(dst, '}')
}
