package headers

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/throttledhq/throttled/edge/decision"
)

var (
	both = Format{RateLimit: true, XRateLimit: true}
	now  = time.Unix(1_800_000_000, 1)
)

// state returns a decision that admits a request.
func state(limit, remaining int64, reset time.Duration) decision.Decision {
	return decision.Decision{Limit: limit, Remaining: remaining, RetryAfter: -1, ResetAfter: reset}
}

// refusal returns a decision that refuses a request.
func refusal(limit, remaining int64, retry, reset time.Duration) decision.Decision {
	return decision.Decision{Limited: true, Limit: limit, Remaining: remaining, RetryAfter: retry, ResetAfter: reset}
}

// result returns a result with the decision of one of its limits.
func result(deciding int, limits ...decision.Limit) *decision.Result {
	return &decision.Result{Decision: limits[deciding].Decision, Name: limits[deciding].Name, Limits: limits}
}

// fieldsOf returns the headers in their order.
func fieldsOf(f Format, r *decision.Result) string {
	var lines []string
	for _, field := range f.Append(nil, r, now) {
		lines = append(lines, field.Name+": "+field.Value)
	}
	return strings.Join(lines, "\n")
}

func TestAppend(t *testing.T) {
	const minute, day = time.Minute, 24 * time.Hour
	unlimited := state(decision.Unlimited, decision.Unlimited, 0)
	login := decision.Limit{Decision: refusal(5, 0, 2500*time.Millisecond, 9*time.Second), Name: "login", Window: "1m", Period: minute}
	loginDay := decision.Limit{Decision: state(100, 40, day), Name: "login", Window: "1d", Period: day}
	api := decision.Limit{Decision: state(1000, 999, 10*time.Millisecond), Name: "api", Window: "500ms", Period: 500 * time.Millisecond}
	shadow := decision.Limit{Decision: refusal(1, 0, time.Hour, time.Hour), Name: "secret", Window: "1h", Period: time.Hour, Flags: decision.Shadow}
	free := decision.Limit{Decision: unlimited, Name: "free", Window: "unlimited", Flags: decision.Unlimit}
	none := decision.Limit{Decision: refusal(0, 0, -1, 0), Name: "closed", Window: "none"}
	banned := decision.Limit{Decision: refusal(5, 0, time.Hour, time.Hour), Name: "login", Window: "1m", Period: minute, Flags: decision.Banned}
	failClosed := decision.Limit{Decision: refusal(0, 0, time.Second, time.Second), Name: "login", Window: "1m", Period: minute, Flags: decision.FailClosed}
	failOpen := decision.Limit{Decision: unlimited, Name: "api", Window: "1m", Period: minute, Flags: decision.FailOpen}
	full := decision.Limit{Decision: state(5, 5, 0), Window: "1m", Period: minute, Flags: decision.Default}
	for name, c := range map[string]struct {
		format Format
		result *decision.Result
		want   string
	}{
		"refused": {both, result(0, login), `RateLimit-Policy: "login";q=5;w=60
RateLimit: "login";r=0;t=3
X-RateLimit-Limit: 5
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 9
Retry-After: 3`},
		"epoch": {Format{XRateLimit: true, Epoch: true}, result(0, login), `X-RateLimit-Limit: 5
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1800000010
Retry-After: 3`},
		"none selected": {Format{}, result(0, login), `Retry-After: 3`},
		"admitted, several amounts": {Format{RateLimit: true}, result(1, api, loginDay, login), `RateLimit-Policy: "api";q=1000;w=1, "login";q=100;w=86400, "login:1m";q=5;w=60
RateLimit: "login";r=40;t=86400`},
		"the second amount decides": {Format{RateLimit: true}, result(1, loginDay, login), `RateLimit-Policy: "login";q=100;w=86400, "login:1m";q=5;w=60
RateLimit: "login:1m";r=0;t=3
Retry-After: 3`},
		"shadow and unlimited": {both, result(1, free, api, shadow), `RateLimit-Policy: "api";q=1000;w=1
RateLimit: "api";r=999;t=1
X-RateLimit-Limit: 1000
X-RateLimit-Remaining: 999
X-RateLimit-Reset: 1`},
		"unlimited only":      {both, result(0, free, shadow), ""},
		"no limit applies":    {both, &decision.Result{Decision: unlimited, Flags: decision.Unmatched}, ""},
		"shadow limits apply": {both, &decision.Result{Decision: unlimited, Flags: decision.Unmatched | decision.Shadow, Limits: []decision.Limit{shadow}}, ""},
		"default, full": {both, result(0, full), `RateLimit-Policy: "default";q=5;w=60
RateLimit: "default";r=5
X-RateLimit-Limit: 5
X-RateLimit-Remaining: 5
X-RateLimit-Reset: 0`},
		"no wait helps": {both, result(0, none), `RateLimit-Policy: "closed";q=0
RateLimit: "closed";r=0
X-RateLimit-Limit: 0
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 0`},
		"more than the limit": {Format{RateLimit: true}, result(0, decision.Limit{Decision: refusal(5, 3, -1, 20*time.Second), Name: "a", Period: minute}), `RateLimit-Policy: "a";q=5;w=60
RateLimit: "a";r=3;t=20`},
		"a wait of 0": {Format{RateLimit: true}, result(0, decision.Limit{Decision: refusal(5, 0, 0, 0), Name: "a", Period: minute}), `RateLimit-Policy: "a";q=5;w=60
RateLimit: "a";r=0;t=1
Retry-After: 1`},
		"banned": {Format{RateLimit: true}, result(0, banned), `RateLimit-Policy: "login";q=5;w=60
RateLimit: "login";r=0;t=3600
Retry-After: 3600`},
		"no leader, closed":     {both, &decision.Result{Decision: failClosed.Decision, Name: "login", Flags: decision.FailClosed, Limits: []decision.Limit{failClosed, failOpen}}, `Retry-After: 1`},
		"upstream away, open":   {both, &decision.Result{Decision: state(16, 15, 0), Flags: decision.FailOpen}, ``},
		"upstream away, closed": {both, &decision.Result{Decision: refusal(16, 0, time.Second, time.Second), Flags: decision.FailClosed}, `Retry-After: 1`},
		"upstream away, local": {Format{RateLimit: true}, &decision.Result{Decision: state(4, 3, time.Second), Flags: decision.Local}, `RateLimit-Policy: "default";q=4
RateLimit: "default";r=3;t=1`},
		"no leader, none": {Format{RateLimit: true}, &decision.Result{Decision: none.Decision, Name: "closed", Flags: decision.FailOpen, Limits: []decision.Limit{none, failOpen}}, `RateLimit-Policy: "closed";q=0
RateLimit: "closed";r=0`},
		"no leader, open": {both, &decision.Result{Decision: unlimited, Name: "api", Flags: decision.FailOpen, Limits: []decision.Limit{failOpen}}, ``},
		"no list of limits": {both, &decision.Result{Decision: state(16, 15, time.Second)}, `RateLimit-Policy: "default";q=16
RateLimit: "default";r=15;t=1
X-RateLimit-Limit: 16
X-RateLimit-Remaining: 15
X-RateLimit-Reset: 1`},
		"large numbers": {Format{RateLimit: true}, result(0, decision.Limit{Decision: state(1<<62, 1<<61, 1<<63-1), Name: "a", Period: 1<<63 - 1}), `RateLimit-Policy: "a";q=999999999999999;w=9223372037
RateLimit: "a";r=999999999999999;t=9223372037`},
		"escapes": {Format{RateLimit: true}, result(0, decision.Limit{Decision: state(5, 4, time.Second), Name: "a\"b\\c\r\né"}), `RateLimit-Policy: "a\"b\\c%0D%0A%C3%A9";q=5
RateLimit: "a\"b\\c%0D%0A%C3%A9";r=4;t=1`},
	} {
		if got := fieldsOf(c.format, c.result); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

func TestNewFormat(t *testing.T) {
	for _, c := range []struct {
		names []string
		reset string
		want  Format
	}{
		{nil, "delta", Format{}},
		{[]string{"ratelimit"}, "delta", Format{RateLimit: true}},
		{[]string{"x-ratelimit", "ratelimit"}, "epoch", Format{true, true, true}},
	} {
		if got := NewFormat(c.names, c.reset); got != c.want {
			t.Errorf("NewFormat(%q, %q): %+v, want %+v", c.names, c.reset, got, c.want)
		}
	}
}

// The headers are equivalent to each example of draft 11 that has neither a partition key nor a unit other than requests.
func TestDraftExamples(t *testing.T) {
	const hour, day = time.Hour, 24 * time.Hour
	amount := func(name string, limit, remaining int64, period, reset time.Duration) decision.Limit {
		return decision.Limit{Decision: state(limit, remaining, reset), Name: name, Window: period.String(), Period: period}
	}
	refused := func(name string, limit int64, period, retry time.Duration) decision.Limit {
		return decision.Limit{Decision: refusal(limit, 0, retry, retry), Name: name, Window: period.String(), Period: period}
	}
	for _, c := range []struct {
		policy, rateLimit, retryAfter string // "": not in the example
		result                        *decision.Result
	}{
		{`"burst";q=100;w=60,"daily";q=1000;w=86400`, "", "", result(0, amount("burst", 100, 1, time.Minute, hour), amount("daily", 1000, 1, day, hour))},
		{`"default";q=100;w=10`, "", "", result(0, amount("default", 100, 1, 10*time.Second, time.Second))},
		{`"permin";q=50;w=60,"perhr";q=1000;w=3600`, "", "", result(0, amount("permin", 50, 1, time.Minute, hour), amount("perhr", 1000, 1, hour, hour))},
		{"", `"default";r=50;t=30`, "", result(0, amount("", 100, 50, time.Minute, 30*time.Second))},
		{"", `"problemPolicy";r=0;t=10`, "", result(0, amount("problemPolicy", 9, 0, time.Minute, 10*time.Second))},
		{"", `"default";r=1;t=7`, "", result(0, amount("default", 9, 1, time.Minute, 7*time.Second))},
		{"", `"daily";r=1;t=36400`, "", result(0, amount("daily", 9, 1, day, 36400*time.Second))},
		{`"somepolicy";q=10000;w=1000`, `"somepolicy";r=10000;t=10`, "", result(0, amount("somepolicy", 10000, 10000, 1000*time.Second, 10*time.Second))},
		{"", `"default";r=0;t=50`, "", result(0, amount("default", 9, 0, time.Minute, 50*time.Second))},
		{"", `"default";r=0;t=48`, "", result(0, amount("default", 9, 0, time.Minute, 48*time.Second))},
		{"", `"dayLimit";r=100;t=36000`, "", result(1, amount("hour", 1000, 1000, hour, hour), amount("dayLimit", 5000, 100, day, 10*hour))},
		{`"basic";q=100;w=60`, `"basic";r=60;t=58`, "", result(0, amount("basic", 100, 60, time.Minute, 58*time.Second))},
		{`"basic";q=100;w=60`, `"basic";r=20;t=56`, "", result(0, amount("basic", 100, 20, time.Minute, 56*time.Second))},
		{"", `"default";r=0;t=5`, "5", result(0, refused("default", 9, time.Minute, 5*time.Second))},
		{`"fixedwindow";q=100;w=60`, `"fixedwindow";r=99;t=50`, "", result(0, amount("fixedwindow", 100, 99, time.Minute, 50*time.Second))},
		{`"dynamic";q=100;w=60`, `"dynamic";r=9;t=50`, "", result(0, amount("dynamic", 100, 9, time.Minute, 50*time.Second))},
		{`"dynamic";q=15;w=20`, `"dynamic";r=0;t=20`, "", result(0, amount("dynamic", 15, 0, 20*time.Second, 20*time.Second))},
		{`"hour";q=1000;w=3600, "day";q=5000;w=86400`, `"day";r=100;t=36000`, "", result(1, amount("hour", 1000, 900, hour, hour), amount("day", 5000, 100, day, 10*hour))},
		{"", `"default";r=50;t=60`, "", result(0, amount("default", 100, 50, time.Minute, time.Minute))},
		{`"fixed";q=5000;w=3600`, "", "", result(0, amount("fixed", 5000, 1, hour, hour))},
	} {
		header := headerOf(t, both, c.result)
		for name, want := range map[string]string{"RateLimit-Policy": c.policy, "RateLimit": c.rateLimit} {
			if want != "" && !reflect.DeepEqual(parseList(t, header.Get(name)), parseList(t, want)) {
				t.Errorf("%s: %s, want the equivalent of %s", name, header.Get(name), want)
			}
		}
		if got := header.Get("Retry-After"); got != c.retryAfter {
			t.Errorf("Retry-After with %s: %q, want %q", c.rateLimit, got, c.retryAfter)
		}
	}
}

// parseList parses a list of RFC 9651.
func parseList(t *testing.T, text string) httpsfv.List {
	t.Helper()
	list, err := httpsfv.UnmarshalList([]string{text})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return list
}

// itemOf returns the name and the parameters of an item, which must be a string with integers.
func itemOf(t *testing.T, member httpsfv.Member) (name string, parameters map[string]int64) {
	t.Helper()
	item, ok := member.(httpsfv.Item)
	if !ok {
		t.Fatalf("%v is not an item", member)
	}
	parameters = map[string]int64{}
	for _, key := range item.Params.Names() {
		value, _ := item.Params.Get(key)
		if parameters[key], ok = value.(int64); !ok {
			t.Fatalf("parameter %s is %v", key, value)
		}
	}
	if name, ok = item.Value.(string); !ok {
		t.Fatalf("%v is not a string", item.Value)
	}
	return name, parameters
}

// headerOf returns the headers, each of which must be there at most once.
func headerOf(t *testing.T, f Format, r *decision.Result) http.Header {
	t.Helper()
	header := http.Header{}
	for _, field := range f.Append(nil, r, now) {
		if header.Values(field.Name) != nil {
			t.Errorf("%s is repeated", field.Name)
		}
		header.Set(field.Name, field.Value)
	}
	return header
}

func TestAllocations(t *testing.T) {
	r := result(1, decision.Limit{Decision: state(1000, 999, time.Second), Name: "api", Window: "1m", Period: time.Minute},
		decision.Limit{Decision: refusal(5, 0, time.Second, time.Second), Name: "login", Window: "15m", Period: 15 * time.Minute})
	fields, text := make([]Field, 0, maxFields), make([]byte, 0, 1024)
	for name, c := range map[string]struct {
		most float64
		f    func()
	}{
		"Append":        {1, func() { both.Append(fields, r, now) }}, // the values
		"AppendRefusal": {0, func() { AppendRefusal(text, 429, r) }},
	} {
		if n := testing.AllocsPerRun(100, c.f); n > c.most {
			t.Errorf("%s: %v allocations, want %v", name, n, c.most)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	r := result(1, decision.Limit{Decision: state(1000, 999, time.Second), Name: "api", Window: "1m", Period: time.Minute},
		decision.Limit{Decision: refusal(5, 0, time.Second, time.Second), Name: "login", Window: "15m", Period: 15 * time.Minute})
	fields, text := make([]Field, 0, maxFields), make([]byte, 0, 1024)
	for name, f := range map[string]func(){"fields": func() { both.Append(fields, r, now) }, "refusal": func() { AppendRefusal(text, 429, r) }} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
}
