package headers

import (
	"strconv"
	"unicode/utf8"

	"github.com/throttledhq/throttled/edge/decision"
)

// ContentType is the media type of problems.
const ContentType = "application/problem+json"

// The types of problems. The first three are those of draft-ietf-httpapi-ratelimit-headers-11.
const (
	TypeQuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	TypeReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	TypeAbnormalUsage   = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected"
	TypeBlank           = "about:blank" // Title is the phrase of the status
)

// The titles of the types of draft-ietf-httpapi-ratelimit-headers-11.
const (
	titleQuotaExceeded   = "Request cannot be satisfied as assigned quota has been exceeded"
	titleReducedCapacity = "Request cannot be satisfied due to temporary server capacity constraints"
	titleAbnormalUsage   = "Request not satisfied due to detection of abnormal request pattern"
)

// Problem is an error as the body of a response.
type Problem struct {
	Type    string // such as TypeBlank
	Title   string // the same for all problems of the type
	Status  int
	Error   string // a word for programs, such as "invalid_request"
	Message string // the problem and the remedy
	Retry   int64  // seconds after which the request can succeed; 0 if no wait helps
}

// Unavailable returns the problem of a request that cannot be decided, for example because the cluster has no leader. The
// client may retry it after a second.
func Unavailable(message string) Problem {
	return Problem{TypeReducedCapacity, titleReducedCapacity, 503, "unavailable", message, 1}
}

// Uncertain returns the problem of a request that may have been charged, or whose units may have been refunded. It has no time
// after which to retry, because a client that repeats a refund restores its units twice.
func Uncertain(message string) Problem {
	return Problem{TypeReducedCapacity, titleReducedCapacity, 503, "uncertain", message, 0}
}

// Append appends the problem as a JSON object.
func (p *Problem) Append(dst []byte) []byte {
	dst = appendHead(append(dst, '{'), p.Type, p.Title, p.Status, p.Error)
	dst = append(dst, `,"message":"`...)
	dst = append(appendJSON(dst, p.Message), '"')
	if p.Retry > 0 {
		dst = strconv.AppendInt(append(dst, `,"retry_after_seconds":`...), p.Retry, 10)
	}
	return append(dst, '}')
}

// AppendRefusal appends the problem of a refused request as a JSON object. It allocates nothing else.
func AppendRefusal(dst []byte, status int, r *decision.Result) []byte {
	return append(AppendRefusalMembers(append(dst, '{'), status, r), '}')
}

// AppendRefusalMembers appends the members of the object of AppendRefusal, for an object with more members: type, title,
// status, error, message, retry_after_seconds, which is absent if no wait helps, and violated-policies.
func AppendRefusalMembers(dst []byte, status int, r *decision.Result) []byte {
	switch {
	case r.Flags.Has(decision.FailClosed):
		dst = appendHead(dst, TypeReducedCapacity, titleReducedCapacity, status, "unavailable")
	case r.Flags.Has(decision.Banned):
		dst = appendHead(dst, TypeAbnormalUsage, titleAbnormalUsage, status, "banned")
	default:
		dst = appendHead(dst, TypeQuotaExceeded, titleQuotaExceeded, status, "rate_limited")
	}
	dst = appendMessage(append(dst, `,"message":"`...), r)
	dst = append(dst, '"')
	if wait, ok := RetryAfter(&r.Decision); ok {
		dst = strconv.AppendInt(append(dst, `,"retry_after_seconds":`...), wait, 10)
	}
	return appendViolated(append(dst, `,"violated-policies":[`...), r)
}

// appendHead appends the first members of a problem.
func appendHead(dst []byte, kind, title string, status int, word string) []byte {
	dst = appendJSON(append(dst, `"type":"`...), kind)
	dst = appendJSON(append(dst, `","title":"`...), title)
	dst = strconv.AppendInt(append(dst, `","status":`...), int64(status), 10)
	dst = appendJSON(append(dst, `,"error":"`...), word)
	return append(dst, '"')
}

// appendMessage appends the reason of a refusal.
func appendMessage(dst []byte, r *decision.Result) []byte {
	dst = append(dst, "the limit "...)
	if r.Name == "" {
		dst = append(dst, defaultName...)
	} else {
		dst = appendJSON(dst, r.Name)
	}
	wait, ok := RetryAfter(&r.Decision)
	switch {
	case r.Flags.Has(decision.FailClosed):
		dst = append(dst, " cannot be decided at present"...)
	case r.Flags.Has(decision.Banned):
		dst = append(dst, " has banned the client"...)
	case !ok:
		return append(dst, " never admits this request"...)
	default:
		dst = append(dst, " is exceeded"...)
	}
	if !ok {
		return dst
	}
	dst = strconv.AppendInt(append(dst, "; retry after "...), wait, 10)
	if wait == 1 {
		return append(dst, " second"...)
	}
	return append(dst, " seconds"...)
}

// appendViolated appends the names of the policies that refuse the request, and the end of the list.
func appendViolated(dst []byte, r *decision.Result) []byte {
	if decidingLimit(r) < 0 {
		return append(appendName(dst, r, -1), ']')
	}
	more := false
	for i := range r.Limits {
		l := &r.Limits[i]
		if !l.Limited || l.Flags.Has(decision.Shadow) {
			continue
		}
		if more {
			dst = append(dst, ',')
		}
		dst, more = appendName(dst, r, i), true
	}
	return append(dst, ']')
}

// appendJSON appends the content of a JSON string. Bytes that are not valid UTF-8 are replaced.
func appendJSON(dst []byte, text string) []byte {
	const hex = "0123456789abcdef"
	for _, c := range text { // an invalid byte is utf8.RuneError
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', byte(c))
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = utf8.AppendRune(dst, c)
		}
	}
	return dst
}
