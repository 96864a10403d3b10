package counts

import (
	"cmp"
	"slices"
	"time"
)

// The leases of a limit are counted by the time at which they end, in slots that are used again: more than the longest
// validity of a lease passes from one use to the next.
const (
	leaseSlots = 32
	slotLength = 40 * time.Millisecond
)

// leased counts the units of the leases of one limit.
type leased struct {
	slots    [leaseSlots]leaseSlot
	ended    int64 // units of leases that have ended without a return
	stranded int64 // the largest value of ended, which a return that is counted late can decrease
}

// leaseSlot holds the units of the leases that end within a time of slotLength: first in units, and in ended after this time.
type leaseSlot struct{ number, units, ended int64 }

// settle adds the units of leases that have ended to the stranded ones.
func (l *leased) settle(now time.Duration) {
	for i := range l.slots {
		if s := &l.slots[i]; s.number < int64(now/slotLength) {
			l.ended += s.units
			s.ended += s.units
			s.units = 0
		}
	}
	l.stranded = max(l.stranded, l.ended)
}

// slot returns the slot with a number. Its former units must be settled.
func (l *leased) slot(number int64) *leaseSlot {
	s := &l.slots[number%leaseSlots]
	if s.number != number {
		*s = leaseSlot{number: number}
	}
	return s
}

// subtract removes returned units. The times of a grant and of a return are measured a little later than those of the lease,
// so the lease can be in the slot before or after the one in which it seems to end. Units that are in none of these slots are
// ignored: another node has granted the lease, as the former leader, or this node before a restart.
func (l *leased) subtract(units int64, ends time.Duration) {
	number := int64(ends / slotLength)
	for _, n := range [...]int64{number, number - 1, number + 1} {
		if s := &l.slots[(n+leaseSlots)%leaseSlots]; s.number == n && l.take(s, units) {
			return
		}
	}
}

// take removes returned units from a slot, and reports whether it has so many.
func (l *leased) take(s *leaseSlot, units int64) bool {
	switch {
	case s.units >= units:
		s.units -= units
	case s.ended >= units:
		s.ended -= units
		l.ended -= units
	default:
		return false
	}
	return true
}

// outstanding returns the number of units of leases that have not ended, after settle.
func (l *leased) outstanding() (units int64) {
	for i := range l.slots {
		units += l.slots[i].units
	}
	return units
}

// LeaseRow is the leases of one limit at one time.
type LeaseRow struct {
	Name
	Outstanding int64 // units of leases that have not ended, without those that were returned
	Stranded    int64 // units of leases that have ended without a return, spent ones included
}

// Granted counts a lease that was granted for a time of at most a second. The zero Name stands for all limits that are not of
// rules. Limits without counters of their own are counted as Other.
func (t *Table) Granted(name Name, units int64, valid time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l, now := t.leasedOf(name)
	l.slot(int64((now + valid) / slotLength)).units += units
}

// Returned counts units of a lease that were returned, and the time that is left of the lease.
func (t *Table) Returned(name Name, units int64, left time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l, now := t.leasedOf(name)
	l.subtract(units, now+left)
}

// leasedOf returns the settled leases of a limit, and the present time.
func (t *Table) leasedOf(name Name) (*leased, time.Duration) {
	if name != (Name{}) && t.limits[name] == nil {
		name = Other
	}
	l := t.leases[name]
	if l == nil {
		l = &leased{}
		t.leases[name] = l
	}
	now := time.Since(t.start)
	l.settle(now)
	return l, now
}

// LeaseRows returns the leases of all limits that had any, ordered by name.
func (t *Table) LeaseRows() []LeaseRow {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Since(t.start)
	rows := make([]LeaseRow, 0, len(t.leases))
	for name, l := range t.leases {
		l.settle(now)
		rows = append(rows, LeaseRow{name, max(0, l.outstanding()), l.stranded})
	}
	slices.SortFunc(rows, func(a, b LeaseRow) int {
		return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Limit, b.Limit))
	})
	return rows
}
