package buckets

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

func TestNewClock(t *testing.T) {
	tests := []struct {
		name string
		base time.Time
		want uint64
	}{
		{"present", time.Unix(0, int64(start)), start},
		{"epoch", time.Unix(0, 0), 0},
		{"before the epoch", time.Unix(-5, 0), 0},
		{"far", time.Unix(0, math.MaxInt64-int64(time.Hour)), math.MaxInt64 - uint64(time.Hour)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock := NewClock(tt.base)
				if got := clock(); got != tt.want {
					t.Errorf("the clock starts at %d, want %d", got, tt.want)
				}
				<-time.After(90 * time.Second)
				if got := clock(); got != tt.want+90e9 {
					t.Errorf("after 90 s: got %d, want %d", got, tt.want+90e9)
				}
			})
		})
	}
}

func TestClockNeverGoesBack(t *testing.T) {
	clock := NewClock(time.Now())
	last := clock()
	for range 100_000 {
		now := clock()
		if now < last {
			t.Fatalf("the clock returned %d after %d", now, last)
		}
		last = now
	}
}

// Without Config.Clock, the table starts at the current wall time.
func TestDefaultClock(t *testing.T) {
	before := uint64(time.Now().UnixNano())
	got := New(Config{}).clock()
	if after := uint64(time.Now().UnixNano()); got < before || got > after {
		t.Errorf("clock returns %d, want %d..%d", got, before, after)
	}
}

// TestEarlierTimeAfterLaterTime checks that the time of a shard does not decrease. An operation
// accesses a key at 10 s, when the key expires, and may drop its record. Then a batch that has read
// the clock at 6 s charges the key. The shard must decide this batch at 10 s.
func TestEarlierTimeAfterLaterTime(t *testing.T) {
	l := limiter.Limit{Max: 10, Interval: time.Second}
	drops := map[string]func(*Table){
		"decide": func(table *Table) { ask(table, "k", l, 0) },
		"delete": func(table *Table) { mustDelete(table, []byte("k")) },
		"sweep":  func(table *Table) { (&sweeper{table: table}).step() },
		"none":   func(table *Table) { table.Lookup([]byte("k")) },
	}
	for name, drop := range drops {
		t.Run(name, func(t *testing.T) {
			clock := newFakeClock()
			table := New(Config{Clock: clock.read, Shards: 1})
			ask(table, "k", l, 10) // the key expires at 10 s
			clock.advance(10 * time.Second)
			drop(table)
			clock.advance(-4 * time.Second)
			if d := ask(table, "k", l, 10); d.Limited {
				t.Errorf("the charge by the batch that read the clock at 6 s: got %+v, want admitted", d)
			}
			// The charge was decided at 10 s, so at 10 s no unit has recovered yet.
			clock.advance(4 * time.Second)
			if d := ask(table, "k", l, 1); !d.Limited || d.RetryAfter != time.Second {
				t.Errorf("the second charge, at 10 s: got %+v; want limited, RetryAfter 1 s", d)
			}
		})
	}
}
