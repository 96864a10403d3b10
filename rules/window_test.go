package rules

import (
	"testing"
	"time"
)

func TestWindowLength(t *testing.T) {
	for _, c := range []struct {
		name string
		want time.Duration
		ok   bool
	}{
		{"250ms", 250 * time.Millisecond, true},
		{"1s", time.Second, true},
		{"15m", 15 * time.Minute, true},
		{"2h", 2 * time.Hour, true},
		{"1d", 24 * time.Hour, true},
		{"2w", 14 * 24 * time.Hour, true},
		{"1mo", 30 * 24 * time.Hour, true},
		{"1y", 365 * 24 * time.Hour, true},
		{"300y", 0, false},
		{"unlimited", 0, false},
		{"none", 0, false},
		{"", 0, false},
		{"m", 0, false},
		{"15", 0, false},
		{"15x", 0, false},
		{"99999999999999999999m", 0, false},
	} {
		if got, ok := WindowLength(c.name); got != c.want || ok != c.ok {
			t.Errorf("WindowLength(%q) = %v, %v, want %v, %v", c.name, got, ok, c.want, c.ok)
		}
	}
}

// WindowLength is the inverse of windowName for periods of a fixed length.
func TestWindowLength_Names(t *testing.T) {
	for u := Millisecond; u <= Week; u++ {
		for _, n := range []int64{1, 2, 7, 24, 60, 90, 1000} {
			p := Period{n, u}
			want, _ := p.Duration()
			for _, calendar := range []bool{false, true} {
				name := windowName(p, calendar)
				if got, ok := WindowLength(name); !ok || got != want {
					t.Errorf("%v is named %q, whose length is %v, %v", p, name, got, ok)
				}
			}
		}
	}
}
