package edge

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/throttledhq/throttled/edge/decision"
	"github.com/throttledhq/throttled/edge/headers"
)

// jsonType is the media type of decisions.
const jsonType = "application/json"

// writeDecision writes a decision as JSON, with its headers. A refusal is a problem with the members of a decision.
func (s *Server) writeDecision(w http.ResponseWriter, c *call) {
	s.setHeaders(w.Header(), c)
	r := &c.results[0]
	if !r.Limited {
		c.body = appendObject(c.body[:0], r)
		writeBody(w, http.StatusOK, jsonType, c.body)
		return
	}
	c.body = headers.AppendRefusalMembers(append(c.body[:0], '{'), http.StatusTooManyRequests, r)
	c.body = append(appendMembers(append(c.body, ','), r, false), '}')
	writeBody(w, http.StatusTooManyRequests, headers.ContentType, c.body)
}

// appendObject appends a decision as a JSON object.
func appendObject(b []byte, r *decision.Result) []byte {
	return append(appendMembers(append(b, '{'), r, true), '}')
}

// appendBatch appends the decisions of a batch. A check that failed has an object with the member error.
func appendBatch(b []byte, results []decision.Result) []byte {
	b = append(b, `{"results":[`...)
	for i := range results {
		if i > 0 {
			b = append(b, ',')
		}
		if err := decided(nil, &results[i]); err != nil {
			b = appendFailure(b, err)
			continue
		}
		b = appendObject(b, &results[i])
	}
	return append(b, "]}"...)
}

func appendFailure(b []byte, err error) []byte {
	var e *problemError
	word := "internal"
	if errors.As(err, &e) {
		word = e.word
	}
	b = appendString(append(b, `{"error":`...), word)
	b = appendString(append(b, `,"message":`...), err.Error())
	return append(b, '}')
}

// appendMembers appends the members of a decision. The member retry_after_seconds is that of the problem if the decision
// is one.
func appendMembers(b []byte, r *decision.Result, retry bool) []byte {
	b = appendDecision(b, &r.Decision, retry)
	b = appendString(append(b, `,"name":`...), r.Name)
	b = appendFlags(append(b, `,"flags":`...), r.Flags)
	b = append(b, `,"limits":[`...)
	for i := range r.Limits {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendLimit(b, &r.Limits[i])
	}
	b = append(b, `],"version":`...)
	return strconv.AppendUint(b, r.Version, 10)
}

// appendDecision appends the members of one decision. Numbers of an unlimited amount, and times that do not exist, are
// null.
func appendDecision(b []byte, d *decision.Decision, retry bool) []byte {
	b = strconv.AppendBool(append(b, `"allowed":`...), !d.Limited)
	b = appendUnits(append(b, `,"limit":`...), d.Limit)
	b = appendUnits(append(b, `,"remaining":`...), d.Remaining)
	if retry {
		b = appendTime(append(b, `,"retry_after_seconds":`...), d.RetryAfter)
	}
	return appendTime(append(b, `,"reset_after_seconds":`...), d.ResetAfter)
}

func appendLimit(b []byte, l *decision.Limit) []byte {
	b = appendString(append(b, `{"name":`...), l.Name)
	b = appendString(append(b, `,"window":`...), l.Window)
	b = appendDecision(append(b, ','), &l.Decision, true)
	b = appendFlags(append(b, `,"flags":`...), l.Flags)
	if l.Wait > 0 {
		b = appendTime(append(b, `,"wait_seconds":`...), l.Wait)
	}
	return append(b, '}')
}

func appendFlags(b []byte, f decision.Flags) []byte {
	b = append(b, '[')
	if f != 0 {
		for i, name := range f.AppendNames(nil) {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, name)
		}
	}
	return append(b, ']')
}

func appendUnits(b []byte, n int64) []byte {
	if n == decision.Unlimited {
		return append(b, "null"...)
	}
	return strconv.AppendInt(b, n, 10)
}

// appendTime appends seconds with up to three decimals.
func appendTime(b []byte, d time.Duration) []byte {
	if d < 0 {
		return append(b, "null"...)
	}
	return strconv.AppendFloat(b, float64(d.Milliseconds())/1000, 'f', -1, 64)
}

func appendString(b []byte, s string) []byte {
	text, _ := json.Marshal(s) // a string can always be encoded
	return append(b, text...)
}
