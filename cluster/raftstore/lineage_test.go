package raftstore

import (
	"fmt"
	"testing"
)

// TestLineage checks that Excludes distinguishes the starts of a directory from the starts of its copies.
func TestLineage(t *testing.T) {
	own := Lineage{Boot: 3, Process: "c", Since: "d e"} // the newest boot number is 5
	for _, tt := range []struct {
		name    string
		lineage Lineage
		boot    uint64
		process string
		want    bool
	}{
		{"before the lineage", own, 2, "x", false},
		{"announced", own, 3, "c", false},
		{"another process with the announced boot number", own, 3, "x", true},
		{"of the lineage", own, 4, "d", false},
		{"another process with the same boot number", own, 4, "x", true},
		{"the newest", own, 5, "e", false},
		{"after the newest", own, 6, "x", false},
		{"unknown process", own, 4, "", false},
		{"no lineage", Lineage{}, 4, "x", false},
		{"start before lineages were recorded", Lineage{Boot: 3, Since: "d e"}, 3, "x", false},
		{"since the version that keeps lineages", Lineage{Boot: 3, Since: "d e"}, 4, "x", true},
	} {
		if got := tt.lineage.Excludes(5, tt.boot, tt.process); got != tt.want {
			t.Errorf("%s: Excludes returns %t; want the opposite", tt.name, got)
		}
	}
}

// TestLineage_Long checks that the oldest starts after the first one are dropped from a long lineage, and
// that Excludes then returns true for them.
func TestLineage_Long(t *testing.T) {
	l := Lineage{Boot: 1, Process: "1"}
	const newest = 2 * maxLineage
	for boot := uint64(2); boot <= newest; boot++ {
		l = l.WithStart(boot, fmt.Sprint(boot))
	}
	for boot, want := range map[uint64]bool{1: false, 2: true, newest - maxLineage: true, newest - maxLineage + 1: false, newest: false} {
		if got := l.Excludes(newest, boot, fmt.Sprint(boot)); got != want {
			t.Errorf("start %d: Excludes returns %t; want the opposite", boot, got)
		}
	}
	if l = l.Announced(newest); l != (Lineage{Boot: newest, Process: fmt.Sprint(newest)}) || l.Announced(newest) != l {
		t.Errorf("after the announcement, the lineage is %+v; want the newest start only", l)
	}
}

// TestLineage_Kept checks that a lineage is durable, including one of maximum length.
func TestLineage_Kept(t *testing.T) {
	dir := claimed(t, 1)
	s := openStore(t, Config{Dir: dir})
	for i := range uint64(maxLineage + 10) {
		if i == 5 {
			must(t, s.NoteAnnounced())
		}
		raised, err := s.RecordStart(fmt.Sprintf("%026d", i+1))
		must(t, err)
		if got := raised.Lineage; i >= 5 && (got.Boot != 5 || got.Process != fmt.Sprintf("%026d", 5)) {
			t.Fatalf("after start %d, the lineage is %+v; want it to begin with start 5", i+1, got)
		}
	}
	want, _ := s.Identity()
	must(t, s.Close())
	s = openStore(t, Config{Dir: dir})
	if got, ok := s.Identity(); !ok || got.Lineage != want.Lineage {
		t.Errorf("after the store was reopened, the lineage is %+v; want %+v", got.Lineage, want.Lineage)
	}
}
