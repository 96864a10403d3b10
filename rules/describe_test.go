package rules

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

const described = `version: 1
domain: shop
attributes: {client: {first_of: [api_key, ip]}}
tiers: {by: plan, default: free}
default: {allow: 7/s}
limits:
  login: {when: {path: /login}, allow: [5 per 15m, 9/day], per: [ip], cost: 2}
  api:
    when: {path: "/api/*"}
    allow: {free: 10/s, pro: 20/s}
    per: client
    overrides:
      - {when: {user: acme}, allow: unlimited}
      - {allow: 11/s, until: 2001-09-08}
      - {allow: 12/s, during: {between: "04:00-05:00", zone: Europe/Berlin}}
      - {when: {user: globex}, allow: 13/s}
      - {when: {user: [initech, umbrella]}, allow: none}
  failures:
    when: {path: /fail}
    allow: 5/h
    algorithm: buckets 6
    soft: 20%
    warn: 80%
    charge: {status: [401, 403]}
    ban: {after: 20 per hour, for: 90m}
    on_failure: closed
  shared: {when: {path: /shared*}, allow: 10/min burst 2, priority: {when: {class: critical}, share: 50%}}
  large: {when: {path: /shared/large}, allow: 100/min burst 3, cost: size}
  trial: {when: {path: /login}, allow: none, shadow: true, algorithm: fixed}
`

// TestDescribe checks the lines about limits that apply and the lines after them.
func TestDescribe(t *testing.T) {
	x := &parse(t, described).Domains[0]
	for _, test := range []struct{ request, want string }{
		{"path=/login ip=10.0.0.1", `
login applies: 5 per 15 minutes and 9 per day, for ip "10.0.0.1", cost 2
trial applies, in shadow: none, algorithm fixed
decision: admitted if 2 units remain of login (per 15 minutes, per day); charged to login
`},
		{"path=/login ip=", `
login applies: 5 per 15 minutes and 9 per day, for all requests without ip, cost 2
trial applies, in shadow: none, algorithm fixed
decision: admitted if 2 units remain of login (per 15 minutes, per day); charged to login
`},
		{"path=/api/x user=acme", `
api applies: unlimited, for all requests without client, by override 1
decision: admitted, unlimited by api
`},
		{"path=/api/x plan=gold ip=::1", `
api applies: 10 per second (tier free, because plan is "gold", which is not a tier), for ip "::1"; override 1 does not apply: user is absent, want {exact: 'acme'}; override 2 does not apply: it ended at 2001-09-09T00:00:00Z; override 3 does not apply: Sun 02:46 in Europe/Berlin is not within during; further overrides that do not apply: 2
decision: admitted if 1 unit remains of api (per second); charged to api
`},
		{"path=/api/x user=umbrella", `
api applies: none, for all requests without client, by override 5; override 1 does not apply: user is "umbrella", want {exact: 'acme'}; override 2 does not apply: it ended at 2001-09-09T00:00:00Z; override 3 does not apply: Sun 02:46 in Europe/Berlin is not within during; further overrides that do not apply: 1
decision: refused by api (none)
`},
		{"path=/fail", `
failures applies: 5 per hour, algorithm buckets 6, soft 20%, warn 80%, charged by status 401 or 403, ban of 1h30m0s after 20 refusals per hour, on_failure closed
decision: admitted if 1 unit remains of failures (per hour) or its soft share and no ban of it is active; charged to failures by CL.REPORT with status 401 or 403
`},
		{"path=/shared/large class=critical size=2", `
shared applies: 10 per minute burst 2, with the reserved 50%
large applies: 100 per minute burst 3, cost 2
decision: admitted if 1 unit remains of shared (per minute) and 2 units remain of large (per minute); charged to shared and large
`},
		{"path=/shared/large size=4", `
shared applies: 10 per minute burst 2, without the reserved 50% (class is absent, want {exact: 'critical'})
large applies: 100 per minute burst 3, cost 4
decision: refused by large (cost 4 is more than the limit, 3)
`},
		{"path=/shared", `
shared applies: 10 per minute burst 2, without the reserved 50% (class is absent, want {exact: 'critical'})
decision: admitted if 1 unit remains of shared (per minute) without the reserved 50%; charged to shared
`},
		{"path=/shared/large", `
shared applies: 10 per minute burst 2, without the reserved 50% (class is absent, want {exact: 'critical'})
large applies: 100 per minute burst 3, but its cost cannot be determined
decision: error, limit large: the cost, attribute size, must be an integer of at least 1, and is missing
`},
		{"pth=/login client=x", `
The default applies: 7 per second
no limit of the domain uses the attribute "client"; it is the first of api_key, ip
no limit of the domain uses the attribute "pth"; did you mean path?
decision: admitted if 1 unit remains of the default (per second); charged to the default
`},
		{"b-long-name=1 c-long-name=1 d-long-name=1 a-long-name=1", `
The default applies: 7 per second
no limit of the domain uses the attribute "a-long-name"; the limits use api_key, class, ip, path, plan, size, user
no limit of the domain uses the attribute "b-long-name"; the limits use api_key, class, ip, path, plan, size, user
no limit of the domain uses the attribute "c-long-name"; the limits use api_key, class, ip, path, plan, size, user
further attributes that no limit of the domain uses: 1
decision: admitted if 1 unit remains of the default (per second); charged to the default
`},
	} {
		lines := strings.SplitAfter(x.Describe(requestOf(test.request), time.Unix(1e9, 0)), "\n")
		got := "\n"
		for _, line := range lines {
			if !strings.Contains(line, " does not apply: path is ") {
				got += line
			}
		}
		if got != test.want {
			t.Errorf("%s: got\n%s\nwant\n%s", test.request, got, test.want)
		}
	}
}

// requestOf returns the attributes in words such as path=/login.
func requestOf(words string) Attributes {
	request := Attributes{}
	for _, word := range strings.Fields(words) {
		name, value, _ := strings.Cut(word, "=")
		request[name] = value
	}
	return request
}

// TestDescribe_Domains checks descriptions that depend on other limits of the domain.
func TestDescribe_Domains(t *testing.T) {
	const head = "version: 1\ndomain: d\n"
	for _, test := range []struct{ name, text, words, want string }{
		{"no limit", head + "limits: {a: {when: {x: y}, allow: 1/s}}", "", "a does not apply: x is absent, want {exact: 'y'}\ndecision: admitted, no limit applies\n"},
		{"no attribute", head + "default: {allow: unlimited}", "x=y", "The default applies: unlimited\n" +
			"no limit of the domain uses the attribute \"x\"; the limits use no attributes\ndecision: admitted, unlimited by the default\n"},
		{"envoy", head + "semantics: envoy\nlimits: {a: {allow: 1/s, algorithm: fixed}, b: {allow: 2/s, algorithm: fixed}}", "",
			"a applies: 1 per second, algorithm fixed\nb applies: 2 per second, algorithm fixed\n" +
				"decision: admitted if 1 unit remains of a (per second) and 1 unit remains of b (per second); charged to a and b, also if it is refused\n"},
		{"envoy, refused", head + "semantics: envoy\nlimits: {a: {allow: none, algorithm: fixed}, b: {allow: 2/s, algorithm: fixed}}", "",
			"a applies: none, algorithm fixed\nb applies: 2 per second, algorithm fixed\ndecision: refused by a (none), and charged nevertheless (semantics: envoy)\n"},
		{"whole limit reserved", head + "limits: {a: {allow: 1/s, priority: {when: {x: y}, share: 100%}}, b: {allow: none}}", "",
			"a applies: 1 per second, without the reserved 100% (x is absent, want {exact: 'y'})\nb applies: none\n" +
				"decision: refused by a (cost 1 is more than 0, the limit without the reserved 100%) and b (none)\n"},
		{"soft share", head + "limits: {a: {allow: 10/s, soft: 10%, cost: n}}", "n=12",
			"a applies: 10 per second, cost 12, soft 10%\ndecision: refused by a (cost 12 is more than the limit, 11)\n"},
	} {
		if got := parse(t, test.text).Domains[0].Describe(requestOf(test.words), time.Unix(1e9, 0)); got != test.want {
			t.Errorf("%s: got\n%s\nwant\n%s", test.name, got, test.want)
		}
	}
}

// TestDescribe_TooMany checks the decision for a request to which too many amounts and bans apply.
func TestDescribe_TooMany(t *testing.T) {
	for _, test := range []struct {
		keys   string
		limits int
		want   string
	}{
		{"allow: 1/s", 33, "error, more than 32 amounts apply to the request"},
		{"allow: 1/s, ban: {after: 9/h, for: 1h}", 17, "error, more than 32 amounts and bans apply to the request"},
		{"allow: unlimited, ban: {after: 9/h, for: 1h}", 32, "admitted, unlimited by l0"},
	} {
		text, request := "version: 1\ndomain: d\nlimits:\n", Attributes{}
		for i := range test.limits {
			text += fmt.Sprintf("  l%d: {when: {a%d: x}, %s}\n", i, i, test.keys)
			request[fmt.Sprintf("a%d", i)] = "x"
		}
		got := parse(t, text).Domains[0].Describe(request, time.Unix(1e9, 0))
		if !strings.HasSuffix(got, "\ndecision: "+test.want+"\n") {
			t.Errorf("%d limits with %s: got\n%s\nwant the decision %q", test.limits, test.keys, got, test.want)
		}
	}
}

// TestDescribe_Walk checks that the decisions about random requests agree with the counters that CompiledDomain.Match
// returns.
func TestDescribe_Walk(t *testing.T) {
	g := &randomRules{Rand: rand.New(rand.NewPCG(14, 4))}
	counts := map[string]int{}
	var m Matches
	for range 40 {
		file := g.file()
		shrink(&file.Domains[0])
		set, err := Compile(file)
		if err != nil {
			t.Fatal(err)
		}
		d := set.Domain([]byte("d"))
		for range 100 {
			pairs, now := g.request(), g.time()
			want := "admitted"
			if failed := checkMatch(t, d, pairs, now, &m); failed {
				want = "error"
			} else if refusesFresh(m.List, now) {
				want = "refused"
			}
			request := Attributes{}
			for i := 0; i < len(pairs); i += 2 {
				request[string(pairs[i])] = string(pairs[i+1])
			}
			counts[want]++
			if text := d.domain.Describe(request, now); !strings.Contains(text, "\ndecision: "+want) {
				t.Fatalf("%q: got\n%s\nwant the decision %q", pairs, text, want)
			}
		}
	}
	if min(counts["admitted"], counts["refused"], counts["error"]) < 100 {
		t.Errorf("too few decisions of a kind for a meaningful test: %v", counts)
	}
}

// shrink reduces amounts so that the cost of many requests exceeds them.
func shrink(x *Domain) {
	reduce := func(a Allow) {
		for _, tier := range append([]TierAmounts{{"", a.Amounts}}, a.Tiers...) {
			for i := range tier.Amounts {
				tier.Amounts[i].Count = 1 + tier.Amounts[i].Count%90
			}
		}
	}
	for i := range x.Limits {
		reduce(x.Limits[i].Allow)
		for _, o := range x.Limits[i].Overrides {
			reduce(o.Allow)
		}
	}
}

// refusesFresh reports whether counters without used units refuse a request.
func refusesFresh(list []Matched, now time.Time) bool {
	for _, m := range list {
		for i := range m.Counters {
			c := &m.Counters[i]
			live := m.Limit == nil || !m.Limit.Shadow
			if live && (c.Amount.Kind == None || c.Kind != 0 && m.Cost > c.LimitAt(now, m.Priority).Max) {
				return true
			}
		}
	}
	return false
}
