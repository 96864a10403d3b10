package windowlog

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/limiter/limitertest"
)

// entryBytes is the maximum average size of an entry with quantity 1, including spare bytes, if
// each entry is at most a day after the previous one.
const entryBytes = 8

// meter charges one log, one unit at a time, and measures its size.
type meter struct {
	l       limiter.Limit
	state   limiter.State
	now     uint64
	room    []byte
	charges int
	written int // the sum of the lengths of the tails
	worst   struct {
		bytes, total float64 // maximum size of the log divided by its entries, without and with the footer
	}
}

// charge charges one unit. If the request is refused, charge moves the clock by RetryAfter and repeats
// the request. It returns the number of entries of the log. If that number is at least the from
// parameter, charge also measures the size of the log.
func (m *meter) charge(from int) (entries int) {
	c, d := Decide(&m.l, m.state, m.now, 1, m.room)
	if d.Limited {
		m.now += uint64(d.RetryAfter)
		c, _ = Decide(&m.l, m.state, m.now, 1, m.room)
	}
	m.store(c)
	var g log
	g.open(m.state, uint64(m.l.Interval), m.now)
	if g.count >= from {
		n := float64(g.count)
		m.worst.bytes = max(m.worst.bytes, float64(len(m.state.Data)-footerSize)/n)
		m.worst.total = max(m.worst.total, float64(len(m.state.Data))/n)
	}
	return g.count
}

// store applies the change to the old state, and uses the memory of its tail as the room of the
// next decision.
func (m *meter) store(c limiter.Change) {
	m.state.Expires, m.state.Data = c.Expires, append(m.state.Data[:c.Keep], c.Tail...)
	m.room = c.Tail
	m.charges++
	m.written += len(c.Tail)
}

var gaps = []struct {
	name string
	most time.Duration
}{
	{"1 us", time.Microsecond}, {"100 us", 100 * time.Microsecond}, {"1 ms", time.Millisecond}, {"1 s", time.Second},
	{"1 min", time.Minute}, {"1 h", time.Hour}, {"1 day", 24 * time.Hour},
}

// TestMemory measures logs while they grow to their limit, and then during twice as many requests.
// Each of these requests replaces an expired entry.
func TestMemory(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, limit := range []int64{100, 1000, 8192} {
		for _, gap := range gaps {
			// The period is limit times the average gap, so a charge to a full log often has to wait.
			m := meter{l: newLimit(t, limit, gap.most*time.Duration(limit)*3/4, limit), now: t0}
			for range 3 * limit {
				m.charge(100)
				m.now += uint64(gap.most)/2 + r.Uint64N(uint64(gap.most)/2+1)
			}
			t.Logf("limit %d, gaps of up to %s: at most %.2f bytes per entry, %.2f with the footer, %d bytes written per charge",
				limit, gap.name, m.worst.bytes, m.worst.total, m.written/m.charges)
			if m.worst.bytes > entryBytes {
				t.Errorf("limit %d, gaps of up to %s: %.2f bytes per entry, want at most 8", limit, gap.name, m.worst.bytes)
			}
		}
	}
}

// TestShrinks checks the size of logs with various numbers of spare bytes, after most entries have
// expired and one charge has been made.
func TestShrinks(t *testing.T) {
	l := newLimit(t, 1<<30, time.Hour, MaxEntries)
	const n, gap = 8192, uint64(time.Millisecond)
	var requests []request
	for i := range uint64(n) {
		requests = append(requests, request{t0 + i*gap, 1})
	}
	for _, spare := range []int{5, 100, 2000} {
		old := limiter.State{Expires: t0 + 2*uint64(time.Hour), Data: encode(requests, nil, spare)}
		for _, left := range []uint64{0, 1, 10, 100, 1000} {
			now := t0 + uint64(time.Hour) + (n-left-1)*gap
			c, _ := Decide(&l, old, now, 1, nil)
			state := limitertest.After(old, c)
			entries, ok := decode(state.Data)
			size := len(state.Data) - footerSize
			if !ok || len(entries) != int(left)+1 || size > max(len(entries)*entryBytes, 40) {
				t.Errorf("%d bytes for %d entries; want at most 8 bytes per entry or 40 bytes, whichever is more, and one entry more than the %d live ones before the charge", size, len(entries), left)
			}
		}
	}
}

// TestLastSpareByte checks that an entry that exactly fits into the spare bytes is written in
// place.
func TestLastSpareByte(t *testing.T) {
	l := newLimit(t, 10, time.Second, 10)
	for spare := range 5 { // the entry has 3 bytes
		old := limiter.State{Expires: t0 + 99, Data: encode([]request{{t0, 1}}, nil, spare)}
		if c, _ := Decide(&l, old, t0+98, 2, nil); (c.Keep > 0) != (spare >= 3) {
			t.Errorf("%d spare bytes: keep %d; want keep above 0 only with at least 3 spare bytes", spare, c.Keep)
		}
	}
}

// TestWritten checks the average number of bytes that a charge writes in a steady state.
func TestWritten(t *testing.T) {
	for _, tt := range []struct{ entries, most int }{{10, 60}, {100, 110}, {1000, 400}, {8192, 1300}, {65000, 2200}} {
		m := meter{l: newLimit(t, 1<<30, time.Duration(tt.entries)*time.Millisecond, MaxEntries), now: t0}
		for range tt.entries {
			m.charge(1)
			m.now += uint64(time.Millisecond)
		}
		m.written, m.charges = 0, 0
		for range 10_000 {
			m.charge(1)
			m.now += uint64(time.Millisecond)
		}
		t.Logf("%d entries: %d bytes written per charge", tt.entries, m.written/m.charges)
		if m.written/m.charges > tt.most {
			t.Errorf("%d entries: %d bytes written per charge, want at most %d", tt.entries, m.written/m.charges, tt.most)
		}
	}
}

// TestWrittenInPlace checks that a charge in place writes only the spare bytes and the footer.
func TestWrittenInPlace(t *testing.T) {
	l := newLimit(t, 1<<30, time.Hour, MaxEntries)
	state, now := fill(&l, 3000, int64(time.Millisecond), 1)
	inPlace := 0
	for range 1000 {
		c, _ := Decide(&l, state, now, 1, nil)
		if c.Keep > 0 {
			inPlace++
			if most := len(state.Data)/9 + footerSize; len(c.Tail) > most {
				t.Fatalf("%d bytes written in place, want at most %d", len(c.Tail), most)
			}
		}
		state = limitertest.After(state, c)
		now += uint64(time.Millisecond)
	}
	if inPlace < 980 {
		t.Errorf("%d of 1000 charges were written in place, want at least 980", inPlace)
	}
}

// TestRefundsStayCheap checks that the bytes freed by a large refund are not rewritten as spare
// bytes by each later charge.
func TestRefundsStayCheap(t *testing.T) {
	l := newLimit(t, 1<<30, time.Hour, MaxEntries)
	state, now := fill(&l, 8192, int64(time.Millisecond), 1)
	written := 0
	for i, quantity := range append([]int64{-6000}, slices.Repeat([]int64{1, -1, 2, -3, 1}, 1000)...) {
		c, d := Decide(&l, state, now, quantity, nil)
		if !c.Set {
			t.Fatalf("step %d: no change: %+v", i, d)
		}
		state = limitertest.After(state, c)
		now += uint64(time.Millisecond)
		written += len(c.Tail)
	}
	if mean := written / 5001; mean > 1800 {
		t.Errorf("%d bytes written per step, want at most 1800", mean)
	}
}
