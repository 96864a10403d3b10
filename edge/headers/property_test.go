package headers

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/edge/decision"
)

// randomDecision returns a decision within the ranges of the server.
func randomDecision(random *rand.Rand) decision.Decision {
	d := decision.Decision{Limit: random.Int64N(4), RetryAfter: -1, ResetAfter: time.Duration(random.Int64N(5000)) * time.Millisecond}
	switch random.IntN(6) {
	case 0:
		d.Limit = decision.Unlimited
	case 1:
		d.Limit = random.Int64N(decision.Unlimited)
	}
	d.Remaining = d.Limit
	if d.Limit != decision.Unlimited && random.IntN(2) == 0 {
		d.Limited, d.Remaining = true, d.Limit/2
		d.RetryAfter = time.Duration(random.Int64N(5000)-1000) * time.Millisecond
		d.ResetAfter = max(d.ResetAfter, d.RetryAfter)
	}
	return d
}

// randomResult returns a result with up to 5 amounts of limits, two of which may have similar names.
func randomResult(random *rand.Rand) *decision.Result {
	var limits []decision.Limit
	seen := map[string]bool{}
	for range 1 + random.IntN(5) {
		l := decision.Limit{Decision: randomDecision(random), Name: []string{"", "login", "login-1d", "api", `a"\é`}[random.IntN(5)], Window: []string{"1m", "1d"}[random.IntN(2)]}
		l.Period = time.Duration(random.Int64N(3)) * 700 * time.Millisecond
		if key := l.Name + "|" + l.Window; !seen[key] {
			seen[key] = true
			limits = append(limits, l)
		}
	}
	for range random.IntN(3) {
		limits = append(limits, decision.Limit{Decision: randomDecision(random), Name: "shadow", Window: "1h", Flags: decision.Shadow})
	}
	live := slices.IndexFunc(limits, func(l decision.Limit) bool { return l.Flags.Has(decision.Shadow) })
	if live < 0 {
		live = len(limits)
	}
	return result(random.IntN(live), limits...)
}

// All headers are valid, and agree with each other and with the body.
func TestProperties(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 50_000 {
		r := randomResult(random)
		header := headerOf(t, both, r)
		names := checkPolicies(t, header)
		checkRateLimit(t, header, names)
		if retry := header.Get("Retry-After"); (retry != "") != (r.Limited && r.RetryAfter >= 0) {
			t.Errorf("Retry-After %q after the decision %+v", retry, r.Decision)
		}
		if r.Limited {
			checkBody(t, r, names)
		}
		if t.Failed() {
			t.Fatalf("headers %q of %+v", header, r)
		}
	}
}

// checkPolicies checks RateLimit-Policy, and returns the names of the policies.
func checkPolicies(t *testing.T, header http.Header) (names []string) {
	t.Helper()
	if header.Get("RateLimit-Policy") == "" {
		return nil
	}
	for _, member := range parseList(t, header.Get("RateLimit-Policy")) {
		name, parameters := itemOf(t, member)
		if slices.Contains(names, name) || strings.Contains(name, "shadow") || parameters["q"] < 0 {
			t.Errorf("policy %q with %v", name, parameters)
		}
		if w, ok := parameters["w"]; ok && w < 1 {
			t.Errorf("policy %q has the window %d", name, w)
		}
		names = append(names, name)
	}
	return names
}

// checkRateLimit checks that RateLimit has one of the policies, and that Retry-After is not earlier than the end of its
// window.
func checkRateLimit(t *testing.T, header http.Header, names []string) {
	t.Helper()
	if header.Get("RateLimit") == "" {
		return
	}
	list := parseList(t, header.Get("RateLimit"))
	name, parameters := itemOf(t, list[0])
	window, ok := parameters["t"]
	if len(list) != 1 || !slices.Contains(names, name) || parameters["r"] < 0 || ok && window < 1 {
		t.Errorf("RateLimit has %q with %v", name, parameters)
	}
	if text := header.Get("Retry-After"); text != "" {
		if retry, err := strconv.ParseInt(text, 10, 64); err != nil || retry < 1 || retry < window {
			t.Errorf("Retry-After is %q", text)
		}
	}
}

// checkBody checks that the violated policies are in RateLimit-Policy.
func checkBody(t *testing.T, r *decision.Result, names []string) {
	t.Helper()
	var body struct {
		Violated []string `json:"violated-policies"`
	}
	if err := json.Unmarshal(AppendRefusal(nil, 429, r), &body); err != nil || len(body.Violated) == 0 {
		t.Errorf("body with %q, error %v", body.Violated, err)
	}
	for _, name := range body.Violated {
		if !slices.Contains(names, name) {
			t.Errorf("the violated policy %q is not in RateLimit-Policy", name)
		}
	}
}
