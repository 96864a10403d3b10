package rediscell

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestReport(t *testing.T) {
	var c tally
	for i := range 1000 {
		c.add(imported, fmt.Sprint("user:", i))
	}
	for i := range 7 {
		c.add(notString, fmt.Sprint("hash", i))
	}
	c.add(disagrees, "\x1b[2J\xff\n")
	c.add(noTTL, strings.Repeat("k", 1000))
	got := c.report(500 * time.Millisecond).String()
	want := `      1009 keys read in 500ms (2018 keys/s)
      1000 imported
         1 skipped: a number without a TTL: "` + strings.Repeat("k", maxExampleBytes) + `"
         1 skipped: a number that does not agree with its TTL: "\x1b[2J\xff\n"
         7 skipped: not a string: "hash0", "hash1", "hash2", "hash3", "hash4", ...
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestReasonNames(t *testing.T) {
	seen := map[string]bool{}
	for why, name := range reasonNames {
		if name == "" || seen[name] {
			t.Errorf("reason %d has the name %q, which is empty or used twice", why, name)
		}
		seen[name] = true
	}
}

func TestLines(t *testing.T) {
	var b bytes.Buffer
	now := time.Unix(0, 0)
	progress := Lines(&b, 2*time.Second, func() time.Time { return now })
	step := func(d time.Duration, done, total int64) {
		now = now.Add(d)
		progress(done, total)
	}
	step(time.Second, 10, 100)
	step(time.Second, 20, 100)
	step(time.Second, 30, 100)
	step(3*time.Second, 40, 0)
	if got, want := b.String(), "20 of about 100 keys read\n40 keys read\n"; got != want {
		t.Errorf("the lines are %q; want %q", got, want)
	}
}

func TestBar(t *testing.T) {
	f := func(total int64, want string, steps ...int64) {
		t.Helper()
		var b bytes.Buffer
		progress, remove := Bar(&b)
		for _, done := range steps {
			progress(done, total)
		}
		remove()
		shown := b.String()
		if !strings.Contains(shown, want) {
			t.Errorf("the bar shows %q; want %q in it", shown, want)
		}
		if i := strings.LastIndex(shown, "\r"); want != "" && strings.TrimSpace(shown[i+1:]) != "" {
			t.Errorf("the bar left %q on the terminal", shown[i+1:])
		}
	}
	f(100, "50%", 50)
	f(100, "100%", 50, 120) // more than the initial total
	f(0, "reading", 50, 120)
	f(100, "")
}
