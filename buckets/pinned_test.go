package buckets

import (
	"fmt"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// pinnedBytes returns the size of the records with leases that are outstanding at limiter time now.
func pinnedBytes(t *Table, now uint64) (sum int) {
	for rec := range t.Records() {
		sum += int(pinOf(rec.Kind, rec.Key, rec.State, now).bytes)
	}
	return sum
}

// countedBytes returns the sum of pinnedMemory at limiter time now.
func countedBytes(t *Table, now uint64) int {
	p := &t.leases.pinned
	p.advance(now / pinLength)
	return int(p.sum)
}

// TestPinnedMemory_Renewed checks that the bound also applies while leases are renewed, at intervals that are shorter than
// the leases, while other keys are drawn.
func TestPinnedMemory_Renewed(t *testing.T) {
	const limit, keys = 1 << 20, 400
	clock := newFakeClock()
	table := New(Config{Clock: clock.read, Shards: 16, MaxMemory: limit, Eviction: EvictSmallestDebt})
	for round := range 12 {
		for i := range keys {
			if d, _ := drawn(table, fmt.Sprintf("renewed:%0100d", i), uint64(round+1), 1); d.Granted != 1 {
				t.Fatalf("round %d: renewal %d is refused", round, i)
			}
		}
		for i := range 1000 * min(1, round/2) { // from the third round on: a renewal makes the records larger
			drawn(table, fmt.Sprintf("new:%d:%d", round, i), 1, 1)
		}
		pinned, counted := pinnedBytes(table, clock.read()), countedBytes(table, clock.read())
		if pinned > limit/pinShare || round >= 2 && pinned < limit/pinShare*9/10 || counted != pinned {
			t.Errorf("round %d: the records with leases take %d bytes, %d are counted; want the same, and %d at most", round, pinned, counted, limit/pinShare)
		}
		clock.advance(600 * time.Millisecond)
	}
	checkTable(t, table)
}

// TestPinnedMemory_Plain checks that the growth and the shrinking of a record by a charge and by a return are counted.
func TestPinnedMemory_Plain(t *testing.T) {
	clock := newFakeClock()
	table := New(Config{Clock: clock.read})
	entries := limiter.Limit{Max: 1000, Interval: time.Hour, Amount: 1000}
	decide := func(quantity int64, d *limiter.Draw) {
		t.Helper()
		out := make([]limiter.Decision, 1)
		table.Decide([]limiter.Request{{Kind: limiter.WindowLog, Key: []byte("log"), Limit: entries, Quantity: quantity, Draw: d}}, out)
		if out[0].Err != nil || d != nil && d.Granted != quantity {
			t.Fatalf("the decision is %+v, of the draw %+v", out[0], d)
		}
		if pinned, counted := pinnedBytes(table, clock.read()), countedBytes(table, clock.read()); counted != pinned {
			t.Errorf("%d bytes are counted, want %d", counted, pinned)
		}
	}
	for id := range uint64(3) {
		decide(2, &limiter.Draw{ID: id + 1, User: "app", Lessee: "lessee", Hold: time.Second})
	}
	for range 100 {
		clock.advance(time.Millisecond)
		decide(1, nil)
	}
	for id := range uint64(3) {
		decide(2, &limiter.Draw{ID: id + 1, User: "app", Return: true})
	}
}

// TestPinnedMemory_Slots checks the sum while leases end and are renewed, and after the time has been set back.
func TestPinnedMemory_Slots(t *testing.T) {
	var p pinnedMemory
	at := func(n uint64) uint64 { return (1000 + n) * pinLength }
	for i, tt := range []struct {
		old, changed pin
		now          uint64
		want         bool
		sum          int64
	}{
		{pin{}, pin{60, at(10)}, at(0), true, 60},
		{pin{}, pin{50, at(10)}, at(0), false, 60},
		{pin{60, at(10)}, pin{70, at(20)}, at(9), true, 70},
		{pin{}, pin{30, at(50)}, at(10), true, 100},
		{pin{70, at(20)}, pin{71, at(30)}, at(11), false, 100},
		{pin{}, pin{1, at(50)}, at(21) - 1, false, 100},
		{pin{}, pin{1, at(50)}, at(21), true, 31},
		{pin{99, at(50)}, pin{99, at(60)}, at(21), true, 99}, // of another table, but the slot is not negative
		{pin{99, at(40)}, pin{}, at(22), true, 99},           // of another table
		{pin{}, pin{1, at(5)}, at(0), true, 100},             // the time of another shard is earlier
		{pin{}, pin{100, at(500)}, at(499), true, 100},
		{pin{}, pin{100, at(50)}, at(49), true, 100}, // the time has been set back
	} {
		if got := p.replace(tt.old, tt.changed, 100, tt.now); got != tt.want || p.sum != tt.sum {
			t.Errorf("change %d: got %t, %d; want %t, %d", i, got, p.sum, tt.want, tt.sum)
		}
	}
}

// TestPinnedMemory_Failed checks that nothing is counted for a draw without memory for its record.
func TestPinnedMemory_Failed(t *testing.T) {
	clock := newFakeClock()
	table := New(Config{Clock: clock.read, Shards: 1, MaxMemory: 1 << 20})
	drawn(table, "k", 1, 1)
	before := countedBytes(table, clock.read())
	table.shards[0].shared.memory.force(1 << 20)
	for i := range 10 {
		if d, _ := drawn(table, fmt.Sprint("new", i), 1, 1); d.Granted != 0 {
			t.Errorf("draw %d is granted without memory", i)
		}
		drawn(table, "k", uint64(i+2), 1)
	}
	if got := countedBytes(table, clock.read()); got != before || before != pinnedBytes(table, clock.read()) {
		t.Errorf("%d bytes are counted, want %d as before", got, before)
	}
}
