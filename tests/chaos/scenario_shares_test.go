package main

import (
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

// competing returns a record in which the limit admits a unit each millisecond. Nine of ten are of the client with the larger
// demand, in the record since some time after the swap. Of each hundred units, some are missing.
func competing(late time.Duration, missing int) competition {
	const second = int64(time.Second)
	c := competition{
		key:   &history.Key{Name: "shared", MaxBurst: shareBurst, Count: shareRate, Period: time.Second},
		begun: second, swapped: 5 * second, ended: 9 * second,
	}
	for at := int64(0); at < c.ended; at += int64(time.Millisecond) {
		n := int(at / int64(time.Millisecond))
		client := 0
		if (n%10 == 0) != (at >= c.swapped+int64(late)) {
			client = 1
		}
		if n%100 >= missing {
			c.ops[client] = append(c.ops[client], history.Op{Key: c.key, Quantity: 1, Call: at, Return: at})
		}
	}
	return c
}

// TestCompetition checks the shares and the verdicts of records with known shares.
func TestCompetition(t *testing.T) {
	for _, tt := range []struct {
		late     time.Duration
		missing  int
		from, to time.Duration // of the time until the shares follow
		missed   int           // bars
	}{
		{0, 0, shareWindow, shareWindow, 0},
		{time.Second, 5, time.Second, 3 * time.Second / 2, 0},
		{2 * time.Second, 0, 2*time.Second + 1, 5 * time.Second / 2, 1},
		{time.Second, 20, time.Second, 3 * time.Second / 2, 1},
		{time.Minute, 20, shareFor, shareFor, 2},
	} {
		c := competing(tt.late, tt.missing)
		if got := c.followed(); got < tt.from || got > tt.to {
			t.Errorf("shares that follow after %s: followed returns %s, want %s to %s", tt.late, got, tt.from, tt.to)
		}
		out := &report{w: t.Output()}
		if c.judge(out); out.missed != tt.missed || len(out.findings) != 0 {
			t.Errorf("shares that follow after %s, %d %% missing: %d bars missed, findings %v; want %d bars", tt.late, tt.missing, out.missed, out.findings, tt.missed)
		}
	}
	c := competing(0, 0)
	c.key = &history.Key{Name: "smaller", MaxBurst: 9, Count: 100, Period: time.Second}
	out := &report{w: t.Output()}
	if c.judge(out); len(out.findings) != 1 || !strings.Contains(out.findings[0].text, "smaller") {
		t.Errorf("a limit that is exceeded: findings %v, want one", out.findings)
	}
}
