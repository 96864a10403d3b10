package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestMost(t *testing.T) {
	const s = second
	for name, c := range map[string]struct {
		times []time.Duration
		want  int
	}{
		"none":                       {nil, 0},
		"one":                        {[]time.Duration{5 * s}, 1},
		"simultaneous":               {atOnce(5*s, 4), 4},
		"a period apart":             {[]time.Duration{0, 10 * s, 20 * s}, 1},
		"just less than a period":    {[]time.Duration{0, 10*s - 1, 20*s - 2}, 2},
		"the first ones":             {[]time.Duration{0, s, 2 * s, 30 * s, 31 * s}, 3},
		"the last ones":              {[]time.Duration{0, s, 30 * s, 31 * s, 32 * s}, 3},
		"a span that begins between": {[]time.Duration{0, 6 * s, 9 * s, 12 * s, 15 * s, 25 * s}, 4},
	} {
		if got := most(c.times, 10*s); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}

// TestCompare uses examples that can be computed by hand, with a limit of 4 in 10 s.
func TestCompare(t *testing.T) {
	const s = second
	for name, c := range map[string]struct {
		times []time.Duration
		want  accuracy
	}{
		"within the limit": {
			[]time.Duration{0, s, 2 * s, 11 * s},
			accuracy{requests: 4, sliding: 4, log: 4, most: 3},
		},
		"both refuse the fifth": {
			atOnce(s, 5),
			accuracy{requests: 5, sliding: 4, log: 4, most: 4},
		},
		// Four requests arrive at 9 s. SLIDING counts them as 3.5 at 11.25 s, and as 2 at 15 s. At both
		// times, all four are still within the last 10 s, so LOG counts 4.
		"too many": {
			append(atOnce(9*s, 4), 11250*time.Millisecond, 15*s, 15*s),
			accuracy{requests: 7, tooMany: 2, sliding: 6, log: 4, most: 6},
		},
		// Four requests arrive at 0 s. SLIDING counts them as 4 at 10 s, and as 3 at 12.5 s. At both
		// times, they are not within the last 10 s any more, so LOG does not count them.
		"too few": {
			append(atOnce(0, 4), 10*s, 12500*time.Millisecond),
			accuracy{requests: 6, tooFew: 1, sliding: 5, log: 6, most: 4},
		},
	} {
		if got := compare(4, 10*s, c.times); got != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, c.want)
		}
	}
}

func TestRow(t *testing.T) {
	a := accuracy{requests: 2000, tooMany: 10, tooFew: 30, sliding: 980, log: 1000, most: 11}
	got := a.row(setting{traffic: traffics[1], load: 0.5, limit: 10})
	if got != "poisson      10   0.5      2000    2.00 %    0.50 %    1.50 %   98.00 %   1.10 x" {
		t.Errorf("the row is %q, want the row of the given counts", got)
	}
}

func TestSettings(t *testing.T) {
	all := settings()
	if len(all) != 54 {
		t.Errorf("%d settings, want 3 traffics x 3 limits x 6 loads", len(all))
	}
	for _, s := range all {
		if s.requests < accuracyRequests || float64(s.requests) < accuracyPeriods*s.load*float64(s.limit)-0.5 {
			t.Errorf("%s, load %.1f, limit %d: %d requests; want at least accuracyRequests, and at least the requests of accuracyPeriods periods", s.traffic.name, s.load, s.limit, s.requests)
		}
	}
}

// TestTimes checks the number of requests in a period.
func TestTimes(t *testing.T) {
	s := setting{traffic: traffics[0], load: 2, limit: 10, requests: 40}
	times := s.times()
	if len(times) != 40 || times[0] != second/2 || times[39] != 20*second {
		t.Errorf("got %d times, from %v to %v; want 40, from 500ms to 20s", len(times), times[0], times[len(times)-1])
	}
}

// TestDocumentedAccuracy repeats the measurements that the documentation quotes.
func TestDocumentedAccuracy(t *testing.T) {
	text, err := os.ReadFile("../../docs/algorithms.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), accuracyHeader+"\n")
	if !found {
		t.Fatalf("docs/algorithms.md has no line %q", accuracyHeader)
	}
	table, _, _ = strings.Cut(table, "```")
	quoted := map[string]string{} // by the first three columns
	for _, line := range strings.Split(strings.TrimSuffix(table, "\n"), "\n") {
		quoted[strings.Join(strings.Fields(line)[:3], " ")] = line
	}
	for _, s := range settings() {
		beginning := strings.Join(strings.Fields(accuracy{requests: 1, log: 1}.row(s))[:3], " ")
		want, isQuoted := quoted[beginning]
		delete(quoted, beginning)
		if !isQuoted {
			continue
		}
		if got := s.measure().row(s); got != want {
			t.Errorf("docs/algorithms.md has\n%s\nmeasured\n%s", want, got)
		}
	}
	if len(quoted) > 0 {
		t.Errorf("docs/algorithms.md has rows without a measurement: %v", quoted)
	}
}
