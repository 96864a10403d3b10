package windowlog

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/limiter/limitertest"
)

// request is an entry in its decoded form.
type request struct{ at, quantity uint64 }

// encode returns Data, in the format of the package comment, with junk before the requests and
// spare bytes after them.
func encode(requests []request, junk []byte, spare int) []byte {
	b := append([]byte(nil), junk...)
	sum, last, base := uint64(0), uint64(0), uint64(0)
	for i, q := range requests {
		delta := q.at - last
		if i == 0 {
			delta, base = uint64(len(junk)), q.at // ignored in the oldest entry
		}
		if q.quantity == 1 {
			b = binary.AppendUvarint(b, 2*delta)
		} else {
			b = binary.AppendUvarint(b, 2*delta+1)
			b = binary.AppendUvarint(b, 2*q.quantity)
		}
		sum, last = sum+q.quantity, q.at
	}
	end := len(b)
	b = append(b, make([]byte, spare)...)
	for _, v := range []uint64{base, last, sum} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	for _, v := range []int{len(junk), end, len(requests)} {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	return b
}

// decode decodes Data sequentially, and reports whether all fields are consistent.
func decode(data []byte) (requests []request, ok bool) {
	size := len(data) - 36
	if size < 0 {
		return nil, false
	}
	var f [3]uint64
	var n [3]uint64
	for i := range f {
		f[i] = binary.LittleEndian.Uint64(data[size+8*i:])
		n[i] = uint64(binary.LittleEndian.Uint32(data[size+24+4*i:]))
	}
	if n[0] > n[1] || n[1] > uint64(size) {
		return nil, false
	}
	at, sum := f[0], uint64(0)
	for b := data[n[0]:n[1]]; len(b) > 0; {
		v, k := binary.Uvarint(b)
		if k <= 0 {
			return nil, false
		}
		b = b[k:]
		quantity := uint64(1)
		if v%2 == 1 {
			quantity, k = binary.Uvarint(b)
			if k <= 0 || quantity%2 == 1 || quantity == 0 {
				return nil, false
			}
			b, quantity = b[k:], quantity/2
		}
		if len(requests) > 0 {
			if at+v/2 < at {
				return nil, false
			}
			at += v / 2
		}
		if sum+quantity < sum {
			return nil, false
		}
		sum += quantity
		requests = append(requests, request{at, quantity})
	}
	n2 := uint64(len(requests))
	return requests, n2 > 0 && n2 <= MaxEntries && n2 == n[2] && at == f[1] && sum == f[2]
}

// TestFormat checks the exact encoding of a log.
func TestFormat(t *testing.T) {
	l := limiter.Limit{Max: 1000, Interval: 1000, Amount: 10}
	footer := func(base, last, sum uint64, start, end, count uint32) []byte {
		var b []byte
		for _, v := range []uint64{base, last, sum} {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
		for _, v := range []uint32{start, end, count} {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
		return b
	}
	var s limiter.State
	for i, tt := range []struct {
		at       uint64
		quantity int64
		keep     int
		stream   string // the entries and the spare bytes
		footer   []byte
	}{
		{0, 1, 0, "\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00", footer(t0, t0, 1, 0, 1, 1)},
		{3, 1, 1, "\x00\x06" + "\x00\x00\x00\x00\x00\x00\x00", footer(t0, t0+3, 2, 0, 2, 2)},
		{103, 7, 2, "\x00\x06\xc9\x01\x0e" + "\x00\x00\x00\x00", footer(t0, t0+103, 9, 0, 5, 3)},
		{103, -4, 2, "\x00\x06\xc9\x01\x06" + "\x00\x00\x00\x00", footer(t0, t0+103, 5, 0, 5, 3)},
		{103, -2, 2, "\x00\x06\xc8\x01" + "\x00\x00\x00\x00\x00", footer(t0, t0+103, 3, 0, 4, 3)},
		{103, -1, 2, "\x00\x06" + "\x00\x00\x00\x00\x00\x00\x00", footer(t0, t0+3, 2, 0, 2, 2)},
		{1001, 1, 2, "\x00\x06\xcc\x0f" + "\x00\x00\x00\x00\x00", footer(t0+3, t0+1001, 2, 1, 4, 2)},
		{1002, 2, 4, "\x00\x06\xcc\x0f\x03\x04" + "\x00\x00\x00", footer(t0+3, t0+1002, 4, 1, 6, 3)},
		// If the entry does not fit, the log is rebuilt without the expired entries.
		{1900, 300, 0, "\xcc\x0f\x03\x04\x85\x0e\xd8\x04" + "\x00\x00\x00\x00\x00\x00\x00\x00", footer(t0+1001, t0+1900, 303, 0, 8, 3)},
	} {
		c, d := Decide(&l, s, t0+tt.at, tt.quantity, nil)
		if !c.Set || c.Keep != tt.keep {
			t.Fatalf("row %d: the state did not change, or Keep is %d, which is wrong; the decision is %+v", i, c.Keep, d)
		}
		s = limitertest.After(s, c)
		if got, want := string(s.Data), tt.stream+string(tt.footer); got != want {
			t.Fatalf("row %d: got the Data\n%x, want\n%x", i, got, want)
		}
	}
}

// TestEntryRoundTrip encodes entries of any size, and decodes them from both ends.
func TestEntryRoundTrip(t *testing.T) {
	for shift := range 63 {
		for _, quantity := range []uint64{1, 2, 3, 63, 64, 1 << 30, math.MaxInt64} {
			delta := uint64(1)<<shift - 1 + uint64(shift%2)
			first := appendEntry(nil, 0, quantity)
			b := appendEntry(first, delta, quantity)
			if len(b)-len(first) > maxEntrySize {
				t.Fatalf("the entry has %d bytes, want at most maxEntrySize", len(b)-len(first))
			}
			g := log{data: b, end: len(b), count: 2}
			forward, ok := g.entry(len(first))
			start, backward, okBackward := g.newest()
			if want := (entry{delta, quantity, len(b)}); !ok || forward != want {
				t.Fatalf("read forward: %+v, %t; want %+v", forward, ok, want)
			}
			if !okBackward || start != len(first) || backward != forward {
				t.Fatalf("read backward: %+v at %d, %t; want the entry that was read forward", backward, start, okBackward)
			}
		}
	}
}

// TestMalformed checks that states with inconsistent fields count as absent.
func TestMalformed(t *testing.T) {
	good := []request{{t0 - 9, 1}, {t0 - 5, 7}, {t0 - 5, 1}, {t0 - 1, 2}}
	data := func() []byte { return encode(good, []byte("junk"), 8) }
	set := func(b []byte, at int, v uint64) []byte {
		size := len(b) - footerSize
		if at < 24 {
			binary.LittleEndian.PutUint64(b[size+at:], v)
		} else {
			binary.LittleEndian.PutUint32(b[size+at:], uint32(v))
		}
		return b
	}
	l := limiter.Limit{Max: 20, Interval: 1000, Amount: 10}
	peek := func(data []byte) int64 {
		_, d := Decide(&l, limiter.State{Expires: t0 + 1000, Data: data}, t0, 0, nil)
		return d.Remaining
	}
	if got := peek(data()); got != 9 {
		t.Fatalf("%d units remain in a well-formed state, want 9", got)
	}
	for _, tt := range []struct {
		name string
		data []byte
	}{
		{"no data", nil},
		{"less than a footer", data()[len(data())-footerSize+1:]},
		{"only the footer of a longer log", data()[len(data())-footerSize:]},
		{"base after last", set(data(), 0, t0)},
		{"last before base", set(data(), 8, t0-10)},
		{"a sum below the count", set(data(), 16, 3)},
		{"start after end", set(data(), 24, 40)},
		{"start at end", set(data(), 24, 11)},
		{"end after the spare bytes", set(data(), 28, uint64(len(data())-footerSize)+1)},
		{"end at start", set(data(), 28, 4)},
		{"no entries", set(data(), 32, 0)},
		{"more entries than bytes", set(data(), 32, 9)},
		{"fewer entries than the bytes require", set(encode(slices.Repeat(good[:1], 21), nil, 0), 32, 1)},
		{"one entry with different base and last", set(encode(good[:1], make([]byte, 21), 0), 8, t0)},
		{"more than MaxEntries entries", encode(slices.Repeat(good[:1], MaxEntries+1), nil, 0)},
	} {
		if got := peek(tt.data); got != l.Max {
			t.Errorf("%s: %d units remain, want the whole limit", tt.name, got)
		}
	}
}

// TestMalformedEntries checks that damaged entries are detected when a decision visits them. The name
// of a case consists of the damage, and the purpose for which the decision visits the damaged entry: to
// refund units, to drop expired entries, or to compute RetryAfter (a wait).
func TestMalformedEntries(t *testing.T) {
	const p = 1000
	l := limiter.Limit{Max: 20, Interval: p, Amount: 10}
	good := []request{{t0, 1}, {t0 + 5, 7}, {t0 + 5, 1}, {t0 + 9, 2}} // encoded as 00 0b 0e 00 09 04
	for _, tt := range []struct {
		name     string
		at       int
		value    byte
		now      uint64
		quantity int64
	}{
		{"an unterminated newest delta, for a refund", 5, 0x84, t0 + 9, -1},
		{"an unterminated delta, for expiry", 3, 0x80, t0 + p + 5, 0},
		{"an odd quantity, for a refund", 5, 5, t0 + 9, -1},
		{"a quantity of 0, for a refund", 5, 0, t0 + 9, -1},
		{"a newest delta from before the base, for a refund", 4, 0x7f, t0 + 9, -2},
		{"a newest quantity above the sum, for a refund", 5, 40, t0 + 9, -10},
		{"an odd quantity, for expiry", 2, 0x0f, t0 + p + 5, 0},
		{"a quantity above the sum, for expiry", 2, 0x7e, t0 + p + 5, 0},
		{"a time after the last, for expiry", 1, 0x7f, t0 + p, 0},
		{"an odd quantity, for a wait", 2, 0x0f, t0 + 9, 14},
		{"a quantity above the sum, for a wait", 2, 0x7e, t0 + 9, 14},
		{"a time after the last, for a wait", 1, 0x7f, t0 + 9, 14},
		{"an odd quantity, for a long wait", 5, 5, t0 + 9, 19},
		{"a newest delta from before the base, for a long wait", 4, 0x7f, t0 + 9, 18},
	} {
		data := encode(good, nil, 8)
		data[tt.at] = tt.value
		c, d := Decide(&l, limiter.State{Expires: t0 + 2*p, Data: data}, tt.now, tt.quantity, nil)
		want := limiter.Decision{Limit: l.Max, Remaining: l.Max, RetryAfter: limiter.NoRetry}
		if tt.quantity > 0 {
			want.Remaining, want.ResetAfter = l.Max-tt.quantity, p
		}
		if d != want || c.Set != (tt.quantity > 0) || c.Keep != 0 {
			t.Errorf("%s: got %+v, %+v; want the result for an absent state", tt.name, c, d)
		}
	}
}

// TestMalformedSums checks footers whose fields do not match the entries.
func TestMalformedSums(t *testing.T) {
	l := limiter.Limit{Max: 20, Interval: 1000, Amount: 10}
	fresh := limiter.Decision{Limit: 20, Remaining: 20, RetryAfter: limiter.NoRetry}
	footer := func(requests []request, count, sum, last uint64) limiter.State {
		data := encode(requests, nil, 0)
		f := data[len(data)-footerSize:]
		binary.LittleEndian.PutUint64(f[8:], last)
		binary.LittleEndian.PutUint64(f[16:], sum)
		binary.LittleEndian.PutUint32(f[32:], uint32(count))
		return limiter.State{Expires: math.MaxUint64, Data: data}
	}
	good := []request{{t0, 1}, {t0, 7}, {t0, 1}, {t0, 2}} // 6 bytes
	end := uint64(math.MaxUint64)
	for _, tt := range []struct {
		name     string
		state    limiter.State
		quantity int64
	}{
		{"count above the number of entries, for a refund", footer(good, 6, 100, t0), -50},
		{"count above the number of entries, for a wait", footer(good, 6, 30, t0), 1},
		{"count below the number of entries, for a refund", footer(good, 3, 100, t0), -50},
		{"a larger sum, for a refund", footer(good, 4, 100, t0), -50},
		{"a larger sum, for a wait", footer(good, 4, 35, t0), 1},
		{"a time after the end of the clock, for a wait", footer([]request{{end - 9, 10}, {10, 10}}, 2, 20, end), 1},
	} {
		want := fresh
		if tt.quantity > 0 {
			want.Remaining, want.ResetAfter = l.Max-tt.quantity, l.Interval
		}
		if _, d := Decide(&l, tt.state, t0, tt.quantity, nil); d != want {
			t.Errorf("%s: got %+v, want the decision for an absent state", tt.name, d)
		}
	}
}
