package counts

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"unsafe"
)

func names(list ...string) (all []Name) {
	for _, limit := range list {
		all = append(all, Name{"shop", limit})
	}
	return all
}

// of returns the counters of a limit, or a Row without counts if the table has none.
func of(t *Table, limit string) Row {
	for _, row := range t.Rows() {
		if row.Name == (Name{"shop", limit}) {
			return row
		}
	}
	return Row{}
}

// TestKeepsCounts checks that a limit keeps its counters when the order of the limits changes, and when the rules do not have
// it for a while.
func TestKeepsCounts(t *testing.T) {
	table := NewTable()
	first := table.Resolve(slices.Values(names("a", "b")))
	first.At(0).Add(Refused, 1)
	first.At(1).Add(Admitted, 1)
	second := table.Resolve(slices.Values(names("b", "c", "a")))
	second.At(2).Add(Refused, 1)
	table.Resolve(slices.Values(names("c")))
	table.Resolve(slices.Values(names("a"))).At(0).Add(Refused, 1)
	if row := of(table, "a"); row.Counts[Refused] != 3 || row.Counts[Admitted] != 0 {
		t.Errorf("a: got %v, want 3 refusals", row.Counts)
	}
	if row := of(table, "b"); row.Counts[Admitted] != 1 {
		t.Errorf("b: got %v, want 1 admission", row.Counts)
	}
	if table.Shared() != 0 {
		t.Errorf("got %d limits that share counters, want 0", table.Shared())
	}
}

// TestBound checks that limits beyond the maximum share counters, that a full table drops limits which the rules no
// longer have, and that a limit keeps its counters when the table is full.
func TestBound(t *testing.T) {
	table := NewTable()
	table.SetMax(2)
	r := table.Resolve(slices.Values(names("a", "b", "c", "d")))
	if r.At(2) != r.At(3) || r.At(0) == r.At(1) || r.At(1) == r.At(2) || table.Shared() != 2 {
		t.Fatalf("want counters of a and b, and shared ones of c and d; %d limits share counters", table.Shared())
	}
	r.At(1).Add(Admitted, 1)
	r.At(2).Add(Soft, 1)
	r.At(3).Add(Soft, 1)
	if rows := table.Rows(); len(rows) != 3 || rows[0].Name != Other || rows[0].Counts[Soft] != 2 {
		t.Errorf("got %v, want 3 rows, of which Other has 2 soft admissions", rows)
	}
	r = table.Resolve(slices.Values(names("e", "b")))
	if row := of(table, "b"); row.Counts[Admitted] != 1 || table.Shared() != 0 {
		t.Errorf("b: got %v, and %d limits share counters, want 1 admission and 0", row.Counts, table.Shared())
	}
	r.At(0).Add(Banned, 1)
	if row := of(table, "e"); row.Counts[Banned] != 1 {
		t.Errorf("e: got %v, want 1 ban", row.Counts)
	}
	if row := of(table, "a"); row.Domain != "" {
		t.Errorf("a: got %v, want no counters, because the table was full", row)
	}
}

// TestNameOfOther checks that a limit with the name of Other does not produce a second row with this name.
func TestNameOfOther(t *testing.T) {
	table := NewTable()
	table.Resolve(slices.Values([]Name{Other})).At(0).Add(Refused, 1)
	if rows := table.Rows(); len(rows) != 1 || rows[0].Counts[Refused] != 1 {
		t.Errorf("got %v, want one row with one refusal", rows)
	}
}

// TestOutcomeNames checks that each outcome has a name of its own.
func TestOutcomeNames(t *testing.T) {
	seen := map[string]bool{}
	for o := range Outcomes {
		name := Outcome(o).String()
		if name == "" || seen[name] {
			t.Errorf("outcome %d has the name %q, which is empty or is used twice", o, name)
		}
		seen[name] = true
	}
}

// TestConcurrent counts while the rules change, and checks that no decision is lost.
func TestConcurrent(t *testing.T) {
	table := NewTable()
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 200 {
				r := table.Resolve(slices.Values(names("a", fmt.Sprint(g, i%3))))
				r.At(0).Add(Admitted, 1)
				table.Rows()
			}
		})
	}
	all.Wait()
	if row := of(table, "a"); row.Counts[Admitted] != 800 {
		t.Errorf("got %d admissions, want 800", row.Counts[Admitted])
	}
}

func TestSize(t *testing.T) {
	if size := unsafe.Sizeof(Limit{}); size != 128 {
		t.Errorf("a Limit has %d bytes, want two cache lines", size)
	}
	l := &Limit{}
	if n := testing.AllocsPerRun(100, func() { l.Add(Refused, 1) }); n != 0 {
		t.Errorf("Add allocates %v times, want 0", n)
	}
}

// BenchmarkResolve measures a change of rules with many limits.
func BenchmarkResolve(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		list := make([]Name, n)
		for i := range list {
			list[i] = Name{"shop", fmt.Sprint("limit-", i)}
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			table := NewTable()
			for b.Loop() {
				table.Resolve(slices.Values(list))
			}
		})
	}
}
