package counts

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestLeases checks the counters while leases are granted, returned in part, and end.
func TestLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := NewTable()
		table.Resolve(slices.Values(names("a", "b")))
		a, b := Name{"shop", "a"}, Name{"shop", "b"}
		wants := func(want ...LeaseRow) {
			t.Helper()
			if got := table.LeaseRows(); !slices.Equal(got, want) {
				t.Errorf("after %v: got %+v, want %+v", time.Since(table.start), got, want)
			}
		}
		pass := func(d time.Duration) { <-time.After(d) } // the time of the bubble
		wants()
		table.Granted(a, 100, time.Second)
		table.Granted(a, 10, 500*time.Millisecond)
		table.Granted(b, 7, time.Second)
		table.Granted(Name{}, 5, 100*time.Millisecond)
		table.Granted(Name{"shop", "unknown"}, 3, time.Second)
		wants(LeaseRow{Name{}, 5, 0}, LeaseRow{Other, 3, 0}, LeaseRow{a, 110, 0}, LeaseRow{b, 7, 0})
		pass(300 * time.Millisecond)
		table.Returned(a, 60, 700*time.Millisecond)
		table.Returned(b, 7, 700*time.Millisecond)
		wants(LeaseRow{Name{}, 0, 5}, LeaseRow{Other, 3, 0}, LeaseRow{a, 50, 0}, LeaseRow{b, 0, 0})
		pass(300 * time.Millisecond)
		wants(LeaseRow{Name{}, 0, 5}, LeaseRow{Other, 3, 0}, LeaseRow{a, 40, 10}, LeaseRow{b, 0, 0})
		table.Granted(a, 1000, time.Second)
		pass(time.Minute)
		wants(LeaseRow{Name{}, 0, 5}, LeaseRow{Other, 0, 3}, LeaseRow{a, 0, 1050}, LeaseRow{b, 0, 0})
	})
}

// TestLeases_Late checks that a return whose time is measured late is subtracted from its lease, at each offset within a slot.
func TestLeases_Late(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := NewTable()
		for range 100 {
			table.Granted(Name{}, 10, time.Second)
			<-time.After(7 * time.Millisecond)               // virtual time, not a multiple of the length of a slot
			table.Returned(Name{}, 10, 994*time.Millisecond) // a millisecond too long
			table.Granted(Name{}, 10, time.Second)
			<-time.After(7 * time.Millisecond)               // virtual time, not a multiple of the length of a slot
			table.Returned(Name{}, 10, 992*time.Millisecond) // a millisecond too short
		}
		<-time.After(time.Minute) // virtual time, until all leases have ended
		if rows := table.LeaseRows(); len(rows) != 1 || rows[0].Outstanding != 0 || rows[0].Stranded != 0 {
			t.Errorf("got %+v, want no outstanding and no stranded units", rows)
		}
	})
}

// TestLeases_Unknown checks that returns of leases which this table has not counted do not change the stranded units, and
// that a return which is counted after the end of its lease does.
func TestLeases_Unknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := NewTable()
		wants := func(stranded int64) {
			t.Helper()
			if rows := table.LeaseRows(); len(rows) != 1 || rows[0].Outstanding != 0 || rows[0].Stranded != stranded {
				t.Errorf("got %+v, want no outstanding and %d stranded units", rows, stranded)
			}
		}
		table.Returned(Name{}, 1000, time.Second)
		wants(0)
		table.Granted(Name{}, 10, time.Second)
		<-time.After(1010 * time.Millisecond)
		table.Returned(Name{}, 1000, 0)
		table.Returned(Name{}, 10, 0) // of a lease that ended 10 ms ago
		table.Granted(Name{}, 7, time.Second)
		<-time.After(time.Minute)
		wants(7)
		table.Returned(Name{}, 7, 0)
		wants(7)
	})
}

// TestLeases_Bound checks that limits beyond the maximum share a row, and that the rows of removed limits are dropped.
func TestLeases_Bound(t *testing.T) {
	table := NewTable()
	table.SetMax(2)
	for round := range 3 {
		var list []string
		for i := range 4 {
			list = append(list, fmt.Sprint(round, ".", i))
		}
		table.Resolve(slices.Values(names(list...)))
		for _, name := range names(list...) {
			table.Granted(name, 1, time.Second)
		}
	}
	rows := table.LeaseRows()
	if len(rows) != 3 || rows[0].Name != Other || rows[0].Outstanding+rows[0].Stranded != 6 {
		t.Errorf("got %+v, want 2 limits, and 6 units of others", rows)
	}
}
