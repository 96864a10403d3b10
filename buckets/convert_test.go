package buckets

import (
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// TestConvert checks that a refused request converts the state of its key to a higher rate, in each way in which a request
// can be refused: the key then has the times of the new limit, and the same used units.
func TestConvert(t *testing.T) {
	slow, fast := limiter.Limit{Max: 2, Interval: time.Hour, Amount: 1}, limiter.Limit{Max: 2, Interval: time.Minute, Amount: 1}
	other := charge(limiter.WindowLog, "other", limiter.Limit{Max: 5, Interval: time.Hour, Amount: 5}, 1)
	for _, refusal := range []struct {
		name  string
		group func(req limiter.Request) []limiter.Request
	}{
		{"alone", func(req limiter.Request) []limiter.Request { return []limiter.Request{req} }},
		{"a trial", func(req limiter.Request) []limiter.Request { return []limiter.Request{trial(req)} }},
		{"first of a group", func(req limiter.Request) []limiter.Request { return linked(req, other) }},
		{"last of a group", func(req limiter.Request) []limiter.Request { return linked(other, req) }},
		{"a trial in a group", func(req limiter.Request) []limiter.Request { return linked(other, trial(req)) }},
	} {
		for _, kind := range []limiter.Kind{limiter.ScaledThrottle, limiter.ScaledBucket, limiter.ScaledLeaky} {
			onTables(t, func(t *testing.T, table *Table) {
				key := kind.Encoding()
				decideOne(table, charge(kind, key, slow, 2))
				decideAll(table, refusal.group(charge(kind, key, fast, 1)))
				peek := decideOne(table, charge(kind, key, fast, 0))
				if peek.Remaining != 0 || peek.ResetAfter != 2*time.Minute {
					t.Errorf("%s, %v: got %+v, want 0 remaining and a reset after 2m", refusal.name, kind, peek)
				}
				if n := used(table, other); n != 0 {
					t.Errorf("%s, %v: the refused group charges %d units", refusal.name, kind, n)
				}
			})
		}
	}
}

// TestConvert_Rollback checks that a conversion is undone with the leadership in which it was made, like a charge.
func TestConvert_Rollback(t *testing.T) {
	slow, fast := limiter.Limit{Max: 2, Interval: time.Hour}, limiter.Limit{Max: 2, Interval: time.Minute}
	table, _ := leading(Config{Shards: 4})
	decideOne(table, charge(limiter.ScaledThrottle, "key", slow, 2))
	commitAll(t, table)
	before := contentOf(table)
	if d := decideOne(table, charge(limiter.ScaledThrottle, "key", fast, 1)); !d.Limited || !table.Pending() {
		t.Fatalf("got %+v, Pending is %t; want a refusal that is pending", d, table.Pending())
	}
	checkUndoLogs(t, table)
	table.Follow()
	sameContent(t, "after the rollback", contentOf(table), before)
}
