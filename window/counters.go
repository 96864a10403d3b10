package window

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// counters holds the counts of a key, decoded for a limit and a time.
type counters struct {
	parts     int    // number of sub-windows in the window; 2 for Slide
	partWidth uint64 // length of a sub-window

	now   uint64 // the time of the decision
	start uint64 // start of the current sub-window

	// The last counter belongs to the current sub-window or to an earlier one. The field age is the
	// number of sub-windows from that one to the current one, and therefore the number of expired
	// counters. If all counters have expired, no counters are kept, and age is equal to parts.
	stored
	age   int
	least uint8  // minimum counter size for the new state, as a code (see stored)
	empty uint64 // time from which all counts have expired, if nothing more is charged

	// converted is set if the counters were stored under other parameters. They are then in the
	// memory of room, with 8 bytes each.
	converted bool
	// The newest sub-window under the old parameters may end after the current sub-window. Its units
	// then count as of now, so they are in the count of the current sub-window. Until something is
	// charged, they move to later sub-windows as time passes, up to the one that begins at
	// movingStart. In this case, moving is the number of these units, and fixed is the number of the
	// other units in the count of the current sub-window. Otherwise the three fields are 0.
	moving, movingStart, fixed uint64
}

// read decodes the counters from the state of a key. A malformed state has no counts.
func (c *counters) read(old *limiter.State, now uint64, room []byte) {
	c.setTime(now)
	ok := c.parse(old, now)
	if ok && c.begin > now {
		// The clock is behind the clock that made the state. Until the clock reaches the start of the
		// newest sub-window, use that start as the current time.
		c.setTime(c.begin)
		c.now = max(now, c.start)
	}
	switch {
	case !ok:
	case c.width == c.partWidth && c.n == c.parts:
		ok = c.take()
	default:
		ok = c.convert(room)
	}
	if !ok {
		c.stored, c.age = stored{}, c.parts
	}
}

// setTime sets the time of the decision.
func (c *counters) setTime(now uint64) { c.now, c.start = now, now-now%c.partWidth }

// take uses the counters as stored. It returns false if the state is malformed.
func (c *counters) take() bool {
	age := uint64(0)
	if passed := c.start - c.begin; passed != 0 {
		age = passed / c.width
		// If the newest sub-window begins after the start of the current one, passed has wrapped, and
		// age is above parts. Such a state is malformed too.
		if age >= uint64(c.parts) || passed%c.width != 0 {
			return false
		}
	}
	c.age, c.least = int(age), c.code
	c.empty = c.begin + uint64(c.n)*c.width
	return true
}

// convert recounts units stored under other parameters. All units of a stored sub-window count as if
// they had been charged in its last nanosecond or now, whichever is earlier. It returns false if the
// state is malformed or all units have expired.
func (c *counters) convert(room []byte) bool {
	old := c.stored
	last := min(old.begin+old.width-1, endOfTime)
	rest := last - last%c.partWidth
	empty := rest + uint64(c.parts)*c.partWidth
	if old.begin%old.width != 0 || empty <= c.now {
		return false
	}
	// Without a new charge, the state expires as it would have without the change of parameters.
	c.empty = min(empty, old.begin+uint64(old.n)*old.width)
	c.stored, c.converted, c.age = blank(c.parts, room), true, 0
	current := c.now / c.partWidth
	move := func(units, at uint64) bool {
		to := c.parts - 1 - int(current-at/c.partWidth)
		if to >= 0 {
			c.set(to, add(c.count(to), units))
		}
		return to >= 0
	}
	// No sub-window begins before time 0.
	for i, begin := old.n-2, old.begin; i >= 0 && begin > 0; i, begin = i-1, begin-old.width {
		if !move(old.count(i), begin-1) {
			break
		}
	}
	newest := old.count(old.n - 1)
	if rest > c.start {
		c.moving, c.movingStart, c.fixed = newest, rest, c.count(c.parts-1)
	}
	move(newest, min(last, c.now))
	return true
}

// charge adds units to the current sub-window. It returns the Keep and Tail of the Change separately,
// to avoid a copy of the struct, and sets c.empty to the new Expires.
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

// refund subtracts units from the counts, newest first. It returns the same values as charge, and
// also sets c.empty.
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

// suits reports whether the stored counters can be changed without unpacking them: at least one has
// not expired, they are not converted, and the limit fits in a counter.
func (c *counters) suits(l *limiter.Limit) bool {
	return c.age < c.parts && !c.converted && uint64(l.Max) <= most(c.code)
}

// rewrite changes the newest counter, which belongs to the current sub-window.
func (c *counters) rewrite(count uint64, room []byte) (keep int, tail []byte) {
	size := 1 << c.code
	return len(c.data) - size, binary.LittleEndian.AppendUint64(room[:0], count)[:size]
}

// advance returns the Data without the expired counters. The last counter then belongs to the
// current sub-window, and is set to the given count.
func (c *counters) advance(count uint64, room []byte) []byte {
	data := slices.Grow(room[:0], len(c.data))[:len(c.data)]
	n := copy(data, c.data[:headerSize])
	n += copy(data[n:], c.data[n+c.age<<c.code:])
	clear(data[n:])
	// As in stored.count, the counter is the upper part of the last 8 bytes. It is still 0.
	last := data[len(data)-8:]
	binary.LittleEndian.PutUint64(last, binary.LittleEndian.Uint64(last)|count<<unused(c.code))
	c.empty = c.start + uint64(c.parts)*c.partWidth
	return data
}

// unpack copies the counters to room with 8 bytes each, unless convert has done so already. The last
// counter then belongs to the current sub-window.
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

// replace encodes the unpacked counters as the new Data. It returns nil if all counters are 0.
func (c *counters) replace(l *limiter.Limit) []byte {
	idle := 0 // number of sub-windows since the newest nonzero count
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
	c.empty = c.start + uint64(c.parts-idle)*c.partWidth
	for uint64(l.Max) > most(c.least) {
		c.least++
	}
	return c.pack(c.partWidth, c.least)
}

// wait returns then - now, or 0 if the difference is negative. The result is capped at the largest
// Duration. Only a state that was set manually can cause a longer wait.
func wait(now, then uint64) time.Duration {
	if then <= now {
		return 0
	}
	return time.Duration(min(then-now, math.MaxInt64))
}
