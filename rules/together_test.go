package rules

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/gcra"
	"github.com/throttledhq/throttled/leaky"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/tokenbucket"
	"github.com/throttledhq/throttled/window"
)

// TestKeys_Together checks which requests have the same key.
func TestKeys_Together(t *testing.T) {
	file := parse(t, `
version: 1
domain: shop
attributes:
  client: {first_of: [api_key, ip]}
  net: {first_of: [ip, peer]}
  ip: {ipv6_prefix: 64}
tiers: {by: plan, default: free}
default: {allow: {free: 1/min, pro: 2/min}, per: client}
limits:
  one:
    when: {limit: one}
    per: client
    allow: 20 per minute
    overrides:
      - {when: {client: acme}, allow: 21/min}
      - {when: {api_key: globex}, allow: 22/min}
      - {when: {client: 10.0.0.0/8}, allow: 23/min}
      - {when: {client: "2001:db8::/32"}, allow: 24/min}
      - {when: {client: "2001:db9::/65"}, allow: 25/min}
      - {when: {path: /fast}, allow: 26/min}
      - {when: {path: /free}, allow: {free: 27/min, pro: 28/min}}
      - {during: {between: "22:00-06:00"}, allow: 29/min}
  two:
    when: {limit: two}
    per: [net, plan]
    allow: {free: 1/min, pro: 2/min}
    overrides:
      - {when: {ip: "a*"}, allow: 3/min}
      - {when: {ip: {present: false}}, allow: 4/min}
  four:
    when: {limit: four}
    per: client
    allow: 100 per hour
    overrides:
      - {when: {client: acme}, allow: 50 per 60m}
      - {during: {between: "22:00-06:00"}, allow: 10/min}
  three:
    when: {limit: three}
    allow: {free: 1/min, pro: 2/min}
`)
	fast, free, network := hashOf(t, file, "one", 5), hashOf(t, file, "one", 6), hashOf(t, file, "one", 4)
	for request, want := range map[string]string{
		"limit one api_key x":                            "one|gcra|1m|api_key=x 20",
		"limit one api_key acme":                         "one|gcra|1m|api_key=acme 21",
		"limit one ip 192.0.2.1 plan pro":                "one|gcra|1m|ip=192.0.2.1 20",
		"limit one api_key globex":                       "one|gcra|1m|api_key=globex 22",
		"limit one ip 10.0.0.1":                          "one|gcra|1m|ip=10.0.0.1 23",
		"limit one ip 2001:db8::1":                       "one|gcra|1m|ip=2001:db8::/64 24",
		"limit one ip 2001:db9::1":                       "one|gcra|1m" + network + "|ip=2001:db9::/64 25",
		"limit one api_key x path /fast":                 "one|gcra|1m" + fast + "|api_key=x 26",
		"limit one api_key x path /free":                 "one|gcra|1m" + free + "@free|api_key=x 27",
		"limit one api_key x path /free plan pro":        "one|gcra|1m" + free + "@pro|api_key=x 28",
		"limit one api_key x path /free plan unknown":    "one|gcra|1m" + free + "@free|api_key=x 27",
		"limit two ip 192.0.2.1 plan pro":                "two|gcra|1m|ip=192.0.2.1|plan=pro 2",
		"limit two ip abc plan pro":                      "two|gcra|1m" + hashOf(t, file, "two", 0) + "|ip=abc|plan=pro 3",
		"limit two peer 192.0.2.1":                       "two|gcra|1m|peer=192.0.2.1|- 4",
		"limit four api_key acme":                        "four|gcra|1h|api_key=acme 50",
		"limit four api_key x":                           "four|gcra|1h|api_key=x 100",
		"limit four api_key x now 23":                    "four|gcra|1m|api_key=x 10", // another period has a counter of its own
		"limit three plan pro":                           "three|gcra|1m@pro 2",
		"limit three plan x":                             "three|gcra|1m@free 1",
		"api_key x":                                      "|gcra|1m@free|api_key=x 1",
		"api_key x plan pro":                             "|gcra|1m@pro|api_key=x 2",
		"limit one api_key x plan pro path /fast now 23": "one|gcra|1m" + fast + "|api_key=x 26",
		"limit one api_key x plan pro now 23":            "one|gcra|1m|api_key=x 29",
	} {
		t.Run(request, func(t *testing.T) {
			now := startOfDay.Add(12 * time.Hour)
			if before, hour, ok := strings.Cut(request, " now "); ok && hour == "23" {
				request, now = before, startOfDay.Add(23*time.Hour)
			}
			if got := strings.Join(keysOf(t, file, request, now), ", "); got != "rule|shop|"+want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// hashOf returns the part of a key for an override.
func hashOf(t testing.TB, file *File, limit string, override int) string {
	t.Helper()
	for _, l := range file.Domains[0].Limits {
		if l.Name == limit {
			parts := together{parts: map[string]string{}}
			part := parts.overridePart(&l.Overrides[override].When)
			if len(part) != len("#01234567") {
				t.Errorf("the part is %q", part)
			}
			return part
		}
	}
	panic("no limit " + limit)
}

// keysOf returns the key and the amount of each counter of a request, whose attributes are separated by spaces.
func keysOf(t testing.TB, file *File, request string, now time.Time) (list []string) {
	t.Helper()
	set, err := Compile(file)
	if err != nil {
		t.Fatal(err)
	}
	var pairs [][]byte
	for _, word := range strings.Fields(request) {
		pairs = append(pairs, []byte(word))
	}
	var m Matches
	if err := set.Domain([]byte(file.Domains[0].Name)).Match(pairs, now, &m); err != nil {
		t.Fatal(err)
	}
	for _, one := range m.List {
		for _, c := range one.Counters {
			list = append(list, fmt.Sprintf("%s %d", c.AppendKey(nil, one.Per), c.Amount.Count))
		}
	}
	return list
}

// TestOverridePart checks that the part depends on the meaning of the conditions only.
func TestOverridePart(t *testing.T) {
	part := func(text string) string {
		file := parse(t, "version: 1\ndomain: d\nlimits: {a: {allow: 1/s, overrides: ["+text+"]}}")
		return hashOf(t, file, "a", 0)
	}
	want := part("{when: {path: /fast, user: [a, b], any: [{x: '1'}, {y: '2'}]}, allow: 5/s}")
	if want != "#a15fce9c" {
		t.Errorf("the part is %s: used units would be lost when the program is updated", want)
	}
	for text, equal := range map[string]bool{
		"{when: {path: /fast, user: [a, b], any: [{x: '1'}, {y: '2'}]}, allow: 6/min, until: 2030-01-01}":    true,
		"{when: {any: [{y: '2'}, {x: '1'}], user: [b, a], path: [/fast]}, during: {days: sat}, allow: none}": true,
		"{when: {path: /fast, user: [a, c], any: [{x: '1'}, {y: '2'}]}, allow: 5/s}":                         false,
		"{when: {path: /fast, user: {not: [a, b]}, any: [{x: '1'}, {y: '2'}]}, allow: 5/s}":                  false,
		"{when: {path: /fast, user: [a, b], any: [{x: '1', y: '2'}]}, allow: 5/s}":                           false,
	} {
		if got := part(text); (got == want) != equal {
			t.Errorf("%s has the part %s, and %s is that of other conditions", text, got, want)
		}
	}
}

// TestOverridePart_Collision checks that different conditions have different parts.
func TestOverridePart_Collision(t *testing.T) {
	w := When{All: []Condition{{"path", Matcher{Text: "/fast"}}}}
	parts := together{parts: map[string]string{}}
	short := parts.overridePart(&w)
	parts.parts[short] = "other conditions"
	if long := parts.overridePart(&w); len(long) != len(short)+8 || !strings.HasPrefix(long, short) || parts.overridePart(&w) != long {
		t.Errorf("the parts are %s and %s", short, long)
	}
}

// TestDetermine checks the conditions that counted values determine, by requests with the same values.
func TestDetermine(t *testing.T) {
	g := &randomRules{Rand: rand.New(rand.NewPCG(1, 33))}
	determined := 0
	for range 20_000 {
		g.texts = map[string][]string{}
		x := &Domain{Attributes: g.attributes()}
		per, w := g.names(), g.when(1)
		fixed := newAttributeCompiler(x.Attributes).fixedBy(per)
		if len(w.All)+len(w.Any) == 0 || !fixed.determine(&w) {
			continue
		}
		determined++
		matches := map[string]bool{}
		for range 50 {
			request := Attributes{}
			for pairs := g.request(); len(pairs) > 0; pairs = pairs[2:] {
				request[string(pairs[0])] = string(pairs[1])
			}
			values, met := fmt.Sprintf("%q", x.sources(per, request)), w.matches(x, request)
			if before, ok := matches[values]; ok && before != met {
				t.Fatalf("attributes %+v, per %v: requests counted by %s do not agree about %s", x.Attributes, per, values, w.canonical())
			}
			matches[values] = met
		}
	}
	t.Logf("%d conditions are determined by the counted values", determined)
	if determined < 500 {
		t.Errorf("only %d conditions", determined)
	}
}

// decide holds the functions of the engine for each kind.
var decide = map[limiter.Kind]func(*limiter.Limit, limiter.State, uint64, int64, []byte) (limiter.Change, limiter.Decision){
	limiter.ScaledThrottle: gcra.DecideScaled,
	limiter.ScaledBucket:   tokenbucket.DecideScaled,
	limiter.ScaledLeaky:    leaky.DecideScaled,
	limiter.SlidingWindow:  window.Slide,
	limiter.FixedWindow:    window.Count,
	limiter.WindowBuckets:  window.Count,
}

// states is the state of keys.
type states map[string]limiter.State

// admits charges one unit, and reports whether the request was admitted.
func (s states) admits(key string, c *Counter, now time.Time) bool {
	old := s[key]
	at := uint64(now.UnixNano())
	if old.Expires <= at {
		old = limiter.State{}
	}
	l := c.LimitAt(now, true)
	ch, d := decide[c.Kind](&l, old, at, 1, nil)
	if ch.Set {
		s[key] = limiter.State{Expires: ch.Expires, Data: append(append([]byte{}, old.Data[:ch.Keep]...), ch.Tail...)}
	}
	return !d.Limited
}

// TestTogether_Rates checks that the requests of a fast override, and of a fast tier, do not restore units for others.
func TestTogether_Rates(t *testing.T) {
	for _, algorithm := range []string{"gcra", "leaky", "bucket", "sliding", "fixed", "buckets 10"} {
		for _, text := range []string{
			"per: client, allow: 20 per minute, overrides: [{when: {path: /fast}, allow: 5000 per minute}]",
			"per: client, allow: {slow: 20 per minute, fast: 5000 per minute}",
		} {
			file := parse(t, "version: 1\ndomain: d\ntiers: {by: path, default: slow}\nlimits: {api: {"+text+", algorithm: "+algorithm+"}}")
			set, err := Compile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, slow := states{}, 0
			for i := range 10_000 / 13 {
				now := startOfDay.Add(time.Duration(i) * 13 * time.Millisecond)
				if i%20 == 0 {
					s.request(t, set, now, "client c path "+map[bool]string{true: "fast", false: "/fast"}[strings.Contains(text, "slow")])
				}
				slow += s.request(t, set, now, "client c path x")
			}
			if slow < 20 || slow > 24 {
				t.Errorf("%s, %s: %d slow requests were admitted in 10 s", algorithm, text, slow)
			}
		}
	}
}

// request charges the counters of a request, whose attributes are separated by spaces. It returns the number of amounts
// that admit it.
func (s states) request(t testing.TB, set *Set, now time.Time, request string) (admitted int) {
	t.Helper()
	var pairs [][]byte
	for _, word := range strings.Fields(request) {
		pairs = append(pairs, []byte(word))
	}
	var m Matches
	if err := set.Domain([]byte("d")).Match(pairs, now, &m); err != nil {
		t.Fatal(err)
	}
	for _, one := range m.List {
		for i := range one.Counters {
			if s.admits(string(one.Counters[i].AppendKey(nil, one.Per)), &one.Counters[i], now) {
				admitted++
			}
		}
	}
	return admitted
}

// TestTogether_OneAmount draws files and requests, and checks that all requests that are counted with one key have the same
// amount, unless it depends on the time. Units are then never restored at the rate of another amount.
func TestTogether_OneAmount(t *testing.T) {
	g := &randomRules{Rand: rand.New(rand.NewPCG(2, 33))}
	counted, repeated := 0, 0
	for range 150 {
		file := g.file()
		g.makeConstant(file)
		set, err := Compile(file)
		if err != nil {
			t.Fatal(err)
		}
		amounts := map[string]Amount{} // by key
		var m Matches
		for range 400 {
			if set.Domain([]byte("d")).Match(g.request(), startOfDay, &m) != nil {
				continue
			}
			for _, one := range m.List {
				for i := range one.Counters {
					c := &one.Counters[i]
					key := string(c.AppendKey(nil, one.Per))
					other, known := amounts[key]
					if known && other != c.Amount {
						t.Fatalf("%s has the amounts %v and %v", key, other, c.Amount)
					}
					amounts[key] = c.Amount
					counted++
					repeated += map[bool]int{true: 1}[known]
				}
			}
		}
	}
	if counted < 20_000 || repeated < counted/4 {
		t.Errorf("%d amounts are counted, %d of them with a key that was used before", counted, repeated)
	}
}

// makeConstant gives the limits of a file distinct amounts that do not depend on the time.
func (g *randomRules) makeConstant(file *File) {
	count := int64(0)
	distinct := func(a *Allow) {
		for _, list := range append([][]Amount{a.Amounts}, tierLists(a)...) {
			for i := range list {
				count++
				list[i].Count, list[i].Burst = count, 0
			}
		}
	}
	x := &file.Domains[0]
	if x.Default != nil {
		distinct(&x.Default.Allow)
	}
	for i := range x.Limits {
		l := &x.Limits[i]
		distinct(&l.Allow)
		for j := range l.Overrides {
			l.Overrides[j].Until, l.Overrides[j].During = time.Time{}, During{}
			distinct(&l.Overrides[j].Allow)
		}
	}
}

// tierLists returns the amounts of each tier.
func tierLists(a *Allow) (lists [][]Amount) {
	for _, tier := range a.Tiers {
		lists = append(lists, tier.Amounts)
	}
	return lists
}
