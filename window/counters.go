package window

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// counters are the counts of a key, read for a limit and a moment.
type counters struct {
	parts int    // how many sub-windows count; 2 for Slide
	every uint64 // the length of each

	now   uint64 // the moment
	start uint64 // of the sub-window that it is in, the current one

	// The last counter is that of the sub-window that began age sub-windows before the
	// current one. So the first age counters do not count any more. If none does, there
	// are none, and age is parts.
	stored
	age   int
	least uint8  // the code of the counters must not be less
	empty uint64 // from when on nothing counts any more if nothing is charged

	// converted is whether the counters are from other parameters. They are in the room
	// then, as unpack would have brought them.
	converted bool
	// held is how much of the current count moves on with the time, as long as nothing is
	// charged, until it comes to rest in the sub-window that begins at rest, after the
	// current one. It is 0 unless converted. The others are how much does not.
	held, rest, others uint64
}

// read takes the counters from the state of a key. One that is malformed counts nothing.
func (c *counters) read(old *limiter.State, now uint64, room []byte) {
	c.at(now)
	ok := c.parse(old, now)
	if ok && c.begin > now {
		// The clock is behind the one by which this was counted. Until it is there, time stands
		// still at the begin of that sub-window.
		c.at(c.begin)
		c.now = max(now, c.start)
	}
	switch {
	case !ok:
	case c.width == c.every && c.n == c.parts:
		ok = c.take()
	default:
		ok = c.convert(room)
	}
	if !ok {
		c.stored, c.age = stored{}, c.parts
	}
}

// at sets the moment.
func (c *counters) at(now uint64) { c.now, c.start = now, now-now%c.every }

// take uses the counters as they are stored.
func (c *counters) take() bool {
	age := uint64(0)
	if passed := c.start - c.begin; passed != 0 {
		age = passed / c.width
		// If the newest began within the current sub-window, passed has wrapped. That is
		// malformed, and caught here as well.
		if age >= uint64(c.parts) || passed%c.width != 0 {
			return false
		}
	}
	c.age, c.least = int(age), c.code
	c.empty = c.begin + uint64(c.n)*c.width
	return true
}

// convert counts again what was counted under other parameters: all of a sub-window as if
// it had come at its last moment, or now if that is still to come.
func (c *counters) convert(room []byte) bool {
	old := c.stored
	last := min(old.begin+old.width-1, endOfTime)
	rest := last - last%c.every
	empty := rest + uint64(c.parts)*c.every
	if old.begin%old.width != 0 || empty <= c.now {
		return false
	}
	// What is not charged again is forgotten when it would have been without the change.
	c.empty = min(empty, old.begin+uint64(old.n)*old.width)
	c.stored, c.converted, c.age = blank(c.parts, room), true, 0
	current := c.now / c.every
	move := func(units, at uint64) bool {
		to := c.parts - 1 - int(current-at/c.every)
		if to >= 0 {
			c.set(to, add(c.count(to), units))
		}
		return to >= 0
	}
	// There is no sub-window before the one that begins at 0.
	for i, begin := old.n-2, old.begin; i >= 0 && begin > 0; i, begin = i-1, begin-old.width {
		if !move(old.count(i), begin-1) {
			break
		}
	}
	newest := old.count(old.n - 1)
	if rest > c.start {
		c.held, c.rest, c.others = newest, rest, c.count(c.parts-1)
	}
	move(newest, min(last, c.now))
	return true
}

// charge counts units in the current sub-window. Like refund, it returns the fields of the
// Change one by one, since a struct would be copied, and sets empty to what Expires is.
func (c *counters) charge(l *limiter.Limit, units uint64, room []byte) (keep int, tail []byte) {
	switch {
	case !c.suits(l):
		c.unpack(room)
		c.set(c.parts-1, c.count(c.parts-1)+units)
		return 0, c.replace(l)
	case c.age > 0:
		return 0, c.advance(units, room)
	}
	return c.rewrite(c.count(c.parts-1)+units, room)
}

// refund takes units from the counts, from the newest first.
func (c *counters) refund(l *limiter.Limit, units uint64, room []byte) (keep int, tail []byte) {
	if c.suits(l) && c.age == 0 {
		if newest := c.count(c.parts - 1); newest > units {
			return c.rewrite(newest-units, room)
		}
	}
	c.unpack(room)
	for i := c.parts - 1; i >= 0 && units > 0; i-- {
		part := min(units, c.count(i))
		c.set(i, c.count(i)-part)
		units -= part
	}
	return 0, c.replace(l)
}

// suits reports whether there is a state that needs no other form for a charge.
func (c *counters) suits(l *limiter.Limit) bool {
	return c.age < c.parts && !c.converted && uint64(l.Max) <= most(c.code)
}

// rewrite changes the newest counter, that of the current sub-window.
func (c *counters) rewrite(count uint64, room []byte) (keep int, tail []byte) {
	size := 1 << c.code
	return len(c.data) - size, binary.LittleEndian.AppendUint64(room[:0], count)[:size]
}

// advance moves the counters on to the current sub-window, and begins that with count.
func (c *counters) advance(count uint64, room []byte) []byte {
	data := slices.Grow(room[:0], len(c.data))[:len(c.data)]
	n := copy(data, c.data[:headerSize])
	n += copy(data[n:], c.data[n+c.age<<c.code:])
	clear(data[n:])
	// As in stored.count, the upper part of the last 8 bytes is the counter. It is 0.
	last := data[len(data)-8:]
	binary.LittleEndian.PutUint64(last, binary.LittleEndian.Uint64(last)|count<<unused(c.code))
	c.empty = c.start + uint64(c.parts)*c.every
	return data
}

// unpack brings the counters to the room, with 8 bytes each, and the last one that of the
// current sub-window.
func (c *counters) unpack(room []byte) {
	if c.converted {
		return
	}
	old := c.stored
	c.stored = blank(c.parts, room)
	for i := c.age; i < c.parts; i++ {
		c.set(i-c.age, old.count(i))
	}
	c.age = 0
}

// replace makes the new Data of what unpack brought.
func (c *counters) replace(l *limiter.Limit) []byte {
	idle := 0 // how many sub-windows ago the newest count was
	for c.count(c.parts-1-idle) == 0 {
		if idle++; idle == c.parts {
			c.empty = 0
			return nil
		}
	}
	if idle > 0 {
		counts := c.data[headerSize:]
		copy(counts[idle<<3:], counts)
		clear(counts[:idle<<3])
	}
	c.empty = c.start + uint64(c.parts-idle)*c.every
	for uint64(l.Max) > most(c.least) {
		c.least++
	}
	return c.pack(c.every, c.least)
}

// wait returns the time from now until then, 0 if that has passed. Only a state that was
// put by hand can be farther ahead than what a Duration holds.
func wait(now, then uint64) time.Duration {
	if then <= now {
		return 0
	}
	return time.Duration(min(then-now, math.MaxInt64))
}
