package lease

import (
	"slices"
	"time"

	"github.com/throttledhq/throttled/internal/failpoint"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/windowlog"
)

// In a log, the entry of a lease has the time as of which the lease is charged. Other entries may have the same time, and can
// be exchanged for it.

type entries []windowlog.Entry

// add inserts an entry.
func (all entries) add(at, units uint64) entries {
	i, _ := slices.BinarySearchFunc(all, at+1, func(e windowlog.Entry, at uint64) int {
		if e.At < at {
			return -1
		}
		return 1
	})
	return slices.Insert(all, i, windowlog.Entry{At: at, Units: units})
}

// take removes units from the entries of a time.
func (all entries) take(at, units uint64) {
	for i := range all {
		if e := &all[i]; e.At == at {
			n := min(e.Units, units)
			e.Units -= n
			units -= n
		}
	}
}

// takeNewest removes units from the newest entries, and returns the number of removed units.
func (all entries) takeNewest(units uint64) (taken uint64) {
	for i := len(all) - 1; i >= 0; i-- {
		n := min(all[i].Units, units-taken)
		all[i].Units -= n
		taken += n
	}
	return taken
}

// period returns the length of the window of the last change of a log.
func (st *state) period(now uint64) time.Duration {
	c, _ := windowlog.Stored(st.inner, now)
	return max(1, c.Window)
}

// chargeLog adds the entry of a new lease.
func (st *state) chargeLog(e *lease, now uint64) {
	all := entries(windowlog.Entries(st.inner, e.limit.Interval, now))
	st.inner = windowlog.Build(all.add(e.asOf, e.units), e.limit.Interval)
}

// creditLog returns n units of the lease at an index of the list.
func (st *state) creditLog(at int, n, now uint64) {
	period := st.period(now)
	all := entries(windowlog.Entries(st.inner, period, now))
	all.take(st.leases[at].asOf, n)
	st.remove(at, n)
	st.inner = windowlog.Build(all, period)
}

// refundLog refunds units, but none of outstanding leases. It returns false if there is nothing to refund.
func (st *state) refundLog(req *limiter.Request, now uint64) bool {
	all := entries(windowlog.Entries(st.inner, req.Limit.Interval, now))
	outstanding := st.leases
	if failpoint.Is(failpoint.LeaseRefundFloor) {
		outstanding = nil
	}
	for i := range outstanding {
		all.take(outstanding[i].asOf, outstanding[i].units)
	}
	if all.takeNewest(-uint64(req.Quantity)) == 0 {
		return false
	}
	for i := range outstanding {
		all = all.add(outstanding[i].asOf, outstanding[i].units)
	}
	st.inner = windowlog.Build(all, req.Limit.Interval)
	return true
}

// resetLog removes all entries but those of the leases.
func (st *state) resetLog(now uint64) {
	period := st.period(now)
	var all entries
	for i := range st.leases {
		all = all.add(st.leases[i].asOf, st.leases[i].units)
	}
	st.inner = windowlog.Build(all, period)
}
