package retry

import (
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// delay returns the time to wait before the next attempt, after a number of attempts. It is never shorter than the time
// that the server demands. The random part is uniformly distributed from 0 to the backoff (full jitter).
func (t *Transport) delay(response *http.Response, sent int) time.Duration {
	random := t.random
	if random == nil {
		random = rand.N[time.Duration]
	}
	jitter := random(t.backoff(sent) + 1)
	demanded := demandedDelay(response.Header, time.Now())
	return demanded + min(jitter, math.MaxInt64-demanded)
}

// backoff returns the upper limit of the random delay after a number of attempts.
func (t *Transport) backoff(sent int) time.Duration {
	backoff, most := positive(t.FirstDelay, 250*time.Millisecond), positive(t.MaxDelay, 10*time.Second)
	for range sent - 1 {
		if backoff >= most/2 {
			return most
		}
		backoff *= 2
	}
	return min(backoff, most)
}

// demandedDelay returns the time that a server demands by Retry-After, or else by RateLimit. It is 0 if there is neither.
func demandedDelay(header http.Header, now time.Time) time.Duration {
	if delay, ok := parseRetryAfter(header.Get("Retry-After"), now); ok {
		return delay
	}
	if header.Get("Age") != "" {
		return 0 // the fields of a cached response are out of date
	}
	var delay time.Duration
	for _, field := range header.Values("RateLimit") {
		delay = max(delay, parseRateLimit(field))
	}
	return delay
}

// parseRetryAfter returns the delay in a Retry-After header: a number of seconds, or a date.
func parseRetryAfter(text string, now time.Time) (time.Duration, bool) {
	if delay, ok := parseSeconds(text); ok {
		return delay, true
	}
	date, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	return max(date.Sub(now), 0), true
}

// parseSeconds parses a non-negative number of seconds. A number that is too large becomes the longest Duration.
func parseSeconds(text string) (time.Duration, bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n > math.MaxInt64/int64(time.Second) {
		return math.MaxInt64, true // digits only, so the number is out of range
	}
	return time.Duration(n) * time.Second, true
}

// parseRateLimit returns the longest effective window (t) of the items in a RateLimit header without remaining units (r). It
// returns 0 if the header is malformed.
func parseRateLimit(field string) (delay time.Duration) {
	items, ok := splitQuoted(field, ',')
	for _, item := range items {
		parts, _ := splitQuoted(item, ';')
		remaining, window := "", ""
		for _, parameter := range parts[1:] {
			name, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
			switch name {
			case "r":
				remaining = value
			case "t":
				window = value
			}
		}
		if t, valid := parseSeconds(window); valid && remaining == "0" {
			delay = max(delay, t)
		}
	}
	if !ok {
		return 0
	}
	return delay
}

// splitQuoted splits a structured field (RFC 9651) at a separator that is not in a quoted string. It reports whether all
// strings are closed.
func splitQuoted(text string, separator byte) (parts []string, ok bool) {
	start, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == separator && !quoted:
			parts = append(parts, text[start:i])
			start = i + 1
		}
	}
	return append(parts, text[start:]), !quoted
}
