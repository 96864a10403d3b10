package lograte

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var start = time.Unix(1_000_000, 0)

// burst calls Allow for n lines of a text. It returns the number of allowed lines, and the
// number of dropped lines that the calls report.
func burst(l *Limiter, text string, n int, now time.Time) (passed, reported int) {
	for range n {
		missed, ok := l.Allow(text, now)
		if ok {
			passed++
		}
		reported += missed
	}
	return passed, reported
}

func TestLimiter_Allow(t *testing.T) {
	l := New(2, time.Second)
	for _, step := range []struct {
		at               time.Duration
		text             string
		lines            int
		passed, reported int
	}{
		{0, "a", 1, 1, 0},
		{300 * time.Millisecond, "a", 1, 1, 0},
		{999_999 * time.Microsecond, "a", 7, 0, 0},
		{999_999 * time.Microsecond, "b", 5, 2, 0}, // each text has its own limit
		{time.Second, "a", 9, 2, 7},
		{1500 * time.Millisecond, "b", 1, 0, 0}, // the window of b opened later than that of a
		{2 * time.Second, "a", 1, 1, 7},
		{2 * time.Second, "b", 1, 1, 4},
		{time.Hour, "a", 9, 2, 0}, // lines not used during a pause are not carried over
		{time.Hour - time.Minute, "a", 1, 0, 0},
		{time.Hour + time.Second, "a", 1, 1, 8},
	} {
		passed, reported := burst(l, step.text, step.lines, start.Add(step.at))
		if passed != step.passed || reported != step.reported {
			t.Errorf("%+v: %d lines pass, %d are reported as dropped; want the numbers passed and reported", step, passed, reported)
		}
	}
}

// TestLimiter_Periods checks, for several lengths of the period, that exactly one line is allowed between
// each multiple of this length and the next multiple.
func TestLimiter_Periods(t *testing.T) {
	for _, period := range []time.Duration{time.Millisecond, time.Second, 7 * time.Second, time.Minute, 24 * time.Hour} {
		l := New(1, period)
		for i := range 100 {
			at := start.Add(time.Duration(i) * period)
			if passed, _ := burst(l, "text", 3, at); passed != 1 {
				t.Fatalf("periods of %v, period %d: %d lines pass, want 1", period, i, passed)
			}
			if passed, _ := burst(l, "text", 3, at.Add(period-period/1000)); passed != 0 {
				t.Fatalf("periods of %v, period %d: %d more lines pass before the end of the period, want none", period, i, passed)
			}
		}
	}
}

func TestLimiter_TakeMissed(t *testing.T) {
	l := New(2, time.Second)
	burst(l, "b", 5, start)
	burst(l, "a", 3, start.Add(500*time.Millisecond))
	burst(l, "quiet", 2, start)
	for _, step := range []struct {
		at   time.Duration
		want []Missed
	}{
		{999 * time.Millisecond, nil},
		{time.Second, []Missed{{"b", 3}}},
		{1200 * time.Millisecond, nil},
		{time.Minute, []Missed{{"a", 1}}},
		{time.Hour, nil},
	} {
		if got := l.TakeMissed(start.Add(step.at)); !slices.Equal(got, step.want) {
			t.Errorf("at %v: TakeMissed returns %v; want %v", step.at, got, step.want)
		}
	}
	if passed, reported := burst(l, "b", 3, start.Add(2*time.Hour)); passed != 2 || reported != 0 {
		t.Errorf("%d lines pass, want 2; %d dropped lines are reported again, want none", passed, reported)
	}
}

// TestLimiter_ReportedOnce checks that TakeMissed does not report lines that Allow has reported.
func TestLimiter_ReportedOnce(t *testing.T) {
	l := New(1, time.Second)
	burst(l, "a", 4, start)
	burst(l, "b", 3, start)
	if _, reported := burst(l, "a", 1, start.Add(time.Second)); reported != 3 {
		t.Errorf("%d dropped lines are reported, want 3", reported)
	}
	if got := l.TakeMissed(start.Add(time.Minute)); !slices.Equal(got, []Missed{{"b", 2}}) {
		t.Errorf("TakeMissed returns %v, want 2 lines of b", got)
	}
}

func TestLimiter_ManyTexts(t *testing.T) {
	l := New(2, time.Second)
	passed := 0
	for i := range 3 * maxTexts {
		n, _ := burst(l, fmt.Sprint(i), 1, start)
		passed += n
	}
	if len(l.texts) != maxTexts || passed != maxTexts+2 {
		t.Errorf("%d texts are counted, want maxTexts; %d lines pass, want maxTexts + 2", len(l.texts), passed)
	}
	later := start.Add(time.Second)
	if got := l.TakeMissed(later); !slices.Equal(got, []Missed{{otherTexts, 2*maxTexts - 2}}) {
		t.Errorf("TakeMissed returns %v, want only the lines of other texts", got)
	}
	burst(l, "7", 3, later)
	burst(l, "new", 1, later)
	if len(l.texts) != 2 { // a text with unreported lines is kept
		t.Errorf("%d texts are counted after idle ones were dropped, want 2", len(l.texts))
	}
}

func TestLimiter_Concurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const goroutines, lines = 8, 500
		l := New(3, time.Second)
		var all sync.WaitGroup
		var mu sync.Mutex
		passed, missed := 0, 0
		for range goroutines {
			all.Go(func() {
				for range lines {
					n, ok := l.Allow("text", time.Now())
					mu.Lock()
					missed += n
					if ok {
						passed++
					}
					mu.Unlock()
					<-time.After(10 * time.Millisecond)
				}
			})
		}
		all.Wait()
		for _, m := range l.TakeMissed(time.Now().Add(time.Second)) {
			missed += m.Lines
		}
		if passed != 3*5 || passed+missed != goroutines*lines {
			t.Errorf("%d lines passed, want 15; %d were reported as dropped, want all others", passed, missed)
		}
	})
}

func TestLimiter_Allocations(t *testing.T) {
	l := New(2, time.Second)
	now := start
	round := func() {
		for _, text := range []string{"a", "b"} {
			l.TakeMissed(now)
			burst(l, text, 5, now)
		}
		now = now.Add(time.Second)
		burst(l, "a", 1, now) // reports the dropped lines
	}
	round()
	if got := testing.AllocsPerRun(100, func() { l.Allow("a", now) }); got != 0 {
		t.Errorf("a dropped line allocates %v times, want 0", got)
	}
	// Only the results of TakeMissed are allocated.
	if got := testing.AllocsPerRun(100, round); got > 2 {
		t.Errorf("a round allocates %v times, want at most 2", got)
	}
}
