package middleware

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
)

// Limits makes requests that are decided by limits of the program. PerIP returns it.
type Limits struct {
	proxies Proxies
	sets    []limitSet
}

// limitSet is a list of limits that count the requests with equal values together.
type limitSet struct {
	dimension string // names the values in keys
	value     func(*http.Request) string
	limits    []Limit
}

// PerIP returns limits of each client address. All other limits apply in addition to them: a client that chooses a new API
// key for each request is still limited by its address.
func PerIP(proxies Proxies, limit Limit, more ...Limit) Limits {
	limits := append([]Limit{limit}, more...)
	return Limits{proxies: proxies, sets: []limitSet{{"ip", proxies.Key, limits}}}
}

// PerHeader returns l with limits of each value of a header. Requests without the header are not subject to them. Keys
// contain a hash of the value, which may be a secret.
func (l Limits) PerHeader(header string, limits ...Limit) Limits {
	return l.Per(http.CanonicalHeaderKey(header), func(r *http.Request) string { return r.Header.Get(header) }, limits...)
}

// Per returns l with limits of each value of a function, for example the user of a session. Requests whose value is empty
// are not subject to them. The dimension names the values in keys, which contain a hash of the value.
func (l Limits) Per(dimension string, value func(*http.Request) string, limits ...Limit) Limits {
	hashed := func(r *http.Request) string { return hash(value(r)) }
	l.sets = append(slices.Clip(l.sets), limitSet{dimension, hashed, limits})
	return l
}

// hash returns 128 bits of a hash of a text, and an empty text for an empty one.
func hash(text string) string {
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// Request returns the request for the limiter.
func (l Limits) Request(r *http.Request) Request {
	limits := make([]Limit, 0, 4)
	for _, set := range l.sets {
		if value := set.value(r); value != "" {
			limits = appendKeyed(limits, set.limits, set.dimension, value)
		}
	}
	return Request{Limits: limits}
}

// appendKeyed appends limits with keys of their own for a value.
func appendKeyed(to, limits []Limit, dimension, value string) []Limit {
	for _, limit := range limits {
		to = append(to, limit.WithKey("http", dimension, value))
	}
	return to
}

// keyWords holds the names of algorithms in keys.
var keyWords = [4]string{GCRA: "gcra", Sliding: "sliding", Fixed: "fixed", Log: "log"}

// WithKey returns the limit with a key of its own for a value in a dimension, such as the address "192.0.2.1" in the
// dimension "ip". The key begins with the Key of the limit, or else with the prefix: routes or programs with different
// beginnings have counters of their own. Count and Burst are not part of it, so that used units stay used when they change.
// A value that can be long or secret should be hashed.
func (l Limit) WithKey(prefix, dimension, value string) Limit {
	l.Key = strings.Join([]string{cmp.Or(l.Key, prefix), l.name(), keyWords[l.Algorithm&3], windowName(l.Period), dimension + "=" + value}, "|")
	return l
}
