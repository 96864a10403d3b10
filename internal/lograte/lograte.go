// Package lograte limits how many log lines of the same text are written in a period, and counts
// the lines that are left out. A Limiter writes nothing itself: the caller asks it before each line.
//
// The first line of a text opens a window of one period. So many lines pass in a window; the rest
// is left out. A later line opens the next window. Lines that a quiet window did not use are lost,
// so that a burst after a pause is no larger than any other.
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

// otherTexts is the name that those further texts are reported under.
const otherTexts = "other lines"

// Limiter limits the lines of each text. Its methods may be called concurrently.
type Limiter struct {
	lines  int
	period time.Duration

	mu      sync.Mutex
	texts   map[string]*text
	other   *text         // shared by the texts beyond maxTexts
	late    []*text       // texts with lines left out, in the order of the first one
	forgets *rate.Limiter // allows one search for idle texts in each period
}

// Missed is the number of lines of one text that were left out.
type Missed struct {
	Text  string
	Lines int
}

// text is the state of one text.
type text struct {
	name   string
	opens  *rate.Limiter // allows one window in each period
	free   int           // lines that may pass in the current window
	missed int           // lines left out and not reported yet
}

// New returns a Limiter that lets so many lines of each text pass in each period.
func New(lines int, period time.Duration) *Limiter {
	l := &Limiter{lines: lines, period: period, texts: map[string]*text{}}
	l.other, l.forgets = l.newText(otherTexts), l.oncePerPeriod()
	return l
}

// Allow reports whether a line may be written now. If so, it also returns how many lines of the
// text were left out since the last one that passed, unless TakeMissed has returned them.
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
		l.late = slices.DeleteFunc(l.late, func(other *text) bool { return other == t })
	}
	return missed, true
}

// TakeMissed returns the texts of which lines were left out in a window that is over, and resets
// their counts. It returns nil if there are none.
func (l *Limiter) TakeMissed(now time.Time) (missed []Missed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = slices.DeleteFunc(l.late, func(t *text) bool {
		if !l.openWindow(t, now) {
			return false
		}
		missed = append(missed, Missed{t.name, t.missed})
		t.missed = 0
		return true
	})
	return missed
}

// find returns the state of a text.
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

// openWindow opens the next window of a text if the last one is over, and reports whether it did.
func (l *Limiter) openWindow(t *text, now time.Time) bool {
	if !t.opens.AllowN(now, 1) {
		return false
	}
	t.free = l.lines
	return true
}

func (l *Limiter) leaveOut(t *text) {
	if t.missed == 0 {
		l.late = append(l.late, t)
	}
	t.missed++
}

func (l *Limiter) newText(name string) *text { return &text{name: name, opens: l.oncePerPeriod()} }

func (l *Limiter) oncePerPeriod() *rate.Limiter { return rate.NewLimiter(rate.Every(l.period), 1) }
