package rules

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter/limitertest"
)

// requestsPerFile is the number of requests of a walk for each of its files.
const requestsPerFile = 500

// walk counts the outcomes of random requests.
type walk struct {
	files, requests, matching, limits, overrides, defaults, beside, failed int
}

// add matches random requests with a random file, and compares the results with those of Domain.Match.
func (w *walk) add(t testing.TB, g *randomRules, requests int) {
	t.Helper()
	set, err := Compile(g.file())
	if err != nil {
		t.Fatal(err)
	}
	d := set.Domain([]byte("d"))
	var m Matches
	w.files++
	for range requests {
		failed := checkMatch(t, d, g.request(), g.time(), &m)
		w.count(m.List, failed)
	}
}

func (w *walk) count(list []Matched, failed bool) {
	w.requests++
	if failed {
		w.failed++
	}
	if len(list) > 0 && list[0].Limit != nil {
		w.matching++
	}
	if n := len(list); n > 0 && list[n-1].Limit == nil {
		w.defaults++
		w.beside += min(n-1, 1)
	}
	for _, m := range list {
		if m.Limit != nil {
			w.limits++
		}
		if m.Limit != nil && m.Counters[0].Amount != m.Limit.Allow.forTier("", "free")[0] {
			w.overrides++ // or another tier
		}
	}
}

// TestWalk compares the matches of random requests with those of Domain.Match. The flag -steps sets the number of
// requests.
func TestWalk(t *testing.T) {
	g := &randomRules{Rand: rand.New(rand.NewPCG(14, 3))}
	steps := limitertest.Steps(60_000)
	var w walk
	start := time.Now()
	for w.requests < steps {
		w.add(t, g, min(requestsPerFile, steps-w.requests))
	}
	t.Logf("%d requests for %d files without a difference, %.0f per second", w.requests, w.files, float64(w.requests)/time.Since(start).Seconds())
	t.Logf("%d match %d limits, %d of them with an override or a tier; %d match the default, %d of them also a shadow limit; %d cause an error",
		w.matching, w.limits, w.overrides, w.defaults, w.beside, w.failed)
	if min(w.matching, w.overrides, 10*w.defaults, 100*w.beside, 10*w.failed) < w.requests/4 {
		t.Errorf("too few requests of a kind for a meaningful test")
	}
}

// FuzzMatch compares the matches of a request with those of Domain.Match, for all domains of a file. The attributes of
// the request are lines such as path=/login.
func FuzzMatch(f *testing.F) {
	requests := []string{
		"path=/api/search\nuser=acme\nip=2001:db8::7\nmethod=POST\ntier=pro", "path=/login\nmethod=POST\nip=::ffff:10.1.2.3",
		"path=/users/5/orders\nhost=a.example.com\nip=10.0.0.1%eth0\nmodel=b\ntokens=12", "", "=\n",
	}
	texts := []string{shop, mixedLimits(40).text, gridLimits(40).text, manyOverrides(40).text}
	for _, text := range readAll(f, "testdata/valid/*.yaml") {
		texts = append(texts, text)
	}
	for _, text := range texts {
		for _, request := range requests {
			f.Add(text, request, startOfDay.Unix())
		}
	}
	f.Fuzz(func(t *testing.T, text, request string, unix int64) {
		file, err := Parse("fuzz.yaml", []byte(text), loadZone)
		if err != nil {
			return
		}
		set, err := Compile(file)
		if err != nil {
			return // an amount that the algorithm cannot count
		}
		pairs := distinctPairs(request)
		var m Matches
		for _, name := range file.Names() {
			checkMatch(t, set.Domain([]byte(name)), pairs, time.Unix(unix, 0), &m)
		}
	})
}

// distinctPairs returns the attributes in lines of text, without those that are repeated or have no name.
func distinctPairs(text string) [][]byte {
	var pairs [][]byte
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if !seen[name] && name != "" {
			pairs = append(pairs, []byte(name), []byte(value))
		}
		seen[name] = true
	}
	return pairs
}
