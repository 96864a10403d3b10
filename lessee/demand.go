package lessee

import "time"

// demand estimates the number of units that are requested per time. It counts units in slots, and averages the slots with
// weights that decrease exponentially, so that a change of the demand has its full effect after about half a second.
type demand struct {
	slot    int64 // number of the current slot
	current int64 // units in it
	average int64 // of earlier slots, times demandScale
}

const (
	slotLength  = int64(50 * time.Millisecond)
	demandScale = 1 << 8
	maxUnits    = 1 << 40 // counted in one slot at most, so that no computation overflows
)

// add counts the units of a request.
func (d *demand) add(units, now int64) {
	d.roll(now)
	d.current = min(maxUnits, d.current+min(units, maxUnits))
}

// roll moves completed slots into the average.
func (d *demand) roll(now int64) {
	slot := now / slotLength
	if passed := slot - d.slot; passed > 16 {
		d.current, d.average = 0, 0
		d.slot = slot
	}
	for ; d.slot < slot; d.slot++ {
		d.average = d.next()
		d.current = 0
	}
}

// next returns the average after the current slot, if the rest of the slot has no requests.
func (d *demand) next() int64 { return d.average + (d.current*demandScale-d.average)/4 }

// during returns the number of units that are expected to be requested within a time of at most a second.
func (d *demand) during(t time.Duration, now int64) int64 {
	d.roll(now)
	perSlot := float64(max(d.average, d.next())) / demandScale
	return int64(perSlot * float64(t) / float64(slotLength))
}

// recent counts requests by hash, to find the keys that are in demand without an entry for each key. Counters are halved in
// each slot. Several keys can share a counter, and are then tracked earlier.
type recent struct {
	slot     int64
	counters [256]uint8
}

// trackFrom is the number of recent requests from which a key is tracked.
const trackFrom = 4

// frequent counts a request, and reports whether its key is in demand.
func (r *recent) frequent(hash uint64, now int64) bool {
	if slot := now / (4 * slotLength); slot > r.slot { // callers may read the clock in another order
		shift := min(8, slot-r.slot)
		for i := range r.counters {
			r.counters[i] >>= shift
		}
		r.slot = slot
	}
	c := &r.counters[hash%uint64(len(r.counters))]
	if *c < trackFrom {
		*c++
	}
	return *c >= trackFrom
}
