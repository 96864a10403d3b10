// Package lograte limits the number of log lines with the same text per period, and counts
// the lines that are dropped. A Limiter does not write: the caller calls Allow before it
// writes a line.
//
// The first line with a text opens a window of one period. In each window a fixed number
// of lines is allowed, and the rest are dropped. The first line after the end of a window
// opens the next one. Unused lines are not carried over, so a burst after a pause has the
// same limit as any other burst.
package lograte

import (
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxTexts bounds the texts that are counted separately. Lines of further texts share one limit.
const maxTexts = 1000

// otherTexts is the name under which texts beyond maxTexts are reported.
const otherTexts = "other lines"

// Limiter limits the lines of each text. Its methods may be called concurrently.
type Limiter struct {
	lines  int
	period time.Duration

	mu         sync.Mutex
	texts      map[string]*text
	other      *text         // state that the texts beyond maxTexts share
	unreported []*text       // texts with dropped lines, in the order of their first dropped line
	forgets    *rate.Limiter // allows one search for idle texts in each period
}

// Missed is the number of dropped lines with one text.
type Missed struct {
	Text  string
	Lines int
}

// text is the state of one text.
type text struct {
	name   string
	opens  *rate.Limiter // allows one window in each period
	free   int           // lines that may pass in the current window
	missed int           // dropped lines that are not reported yet
}

// New returns a Limiter that allows the given number of lines per text and period.
func New(lines int, period time.Duration) *Limiter {
	l := &Limiter{lines: lines, period: period, texts: map[string]*text{}}
	l.other, l.forgets = l.newText(otherTexts), l.oncePerPeriod()
	return l
}

// Allow reports whether a line may be written now. If so, it also returns the number of
// lines with this text that were dropped since the last allowed line, except those that
// TakeMissed has returned.
func (l *Limiter) Allow(name string, now time.Time) (missed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.find(name, now)
	l.openWindow(t, now)
	if t.free == 0 {
		l.leaveOut(t)
		return 0, false
	}
	t.free--
	if missed = t.missed; missed > 0 {
		t.missed = 0
		l.unreported = slices.DeleteFunc(l.unreported, func(other *text) bool { return other == t })
	}
	return missed, true
}

// TakeMissed returns the texts with dropped lines in a window that is over, and resets
// their counts. It returns nil if there are none.
func (l *Limiter) TakeMissed(now time.Time) (missed []Missed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unreported = slices.DeleteFunc(l.unreported, func(t *text) bool {
		if !l.openWindow(t, now) {
			return false
		}
		missed = append(missed, Missed{t.name, t.missed})
		t.missed = 0
		return true
	})
	return missed
}

// find returns the state of a text. It creates the state if necessary. If there are maxTexts other texts
// already, find removes the idle ones, but at most once per period. If it removes none, it returns the shared
// state.
func (l *Limiter) find(name string, now time.Time) *text {
	if t := l.texts[name]; t != nil {
		return t
	}
	if len(l.texts) >= maxTexts && l.forgets.AllowN(now, 1) {
		maps.DeleteFunc(l.texts, func(_ string, t *text) bool { return t.missed == 0 && t.opens.TokensAt(now) >= 1 })
	}
	if len(l.texts) >= maxTexts {
		return l.other
	}
	t := l.newText(name)
	l.texts[name] = t
	return t
}

// openWindow opens the next window of a text if the last window is over, and reports whether it
// opened one.
func (l *Limiter) openWindow(t *text, now time.Time) bool {
	if !t.opens.AllowN(now, 1) {
		return false
	}
	t.free = l.lines
	return true
}

func (l *Limiter) leaveOut(t *text) {
	if t.missed == 0 {
		l.unreported = append(l.unreported, t)
	}
	t.missed++
}

func (l *Limiter) newText(name string) *text { return &text{name: name, opens: l.oncePerPeriod()} }

func (l *Limiter) oncePerPeriod() *rate.Limiter { return rate.NewLimiter(rate.Every(l.period), 1) }
