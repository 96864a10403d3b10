package raftstore

import (
	"fmt"
	"testing"
)

// TestLine checks that Denies distinguishes the starts of a directory from the starts of its copies.
func TestLine(t *testing.T) {
	own := Line{Boot: 3, Process: "c", Since: "d e"} // the newest boot number is 5
	for _, tt := range []struct {
		name    string
		line    Line
		boot    uint64
		process string
		want    bool
	}{
		{"before the line", own, 2, "x", false},
		{"announced", own, 3, "c", false},
		{"another instead of the announced", own, 3, "x", true},
		{"of the line", own, 4, "d", false},
		{"another of the same number", own, 4, "x", true},
		{"the newest", own, 5, "e", false},
		{"after the newest", own, 6, "x", false},
		{"unknown process", own, 4, "", false},
		{"no line", Line{}, 4, "x", false},
		{"before lines were kept", Line{Boot: 3, Since: "d e"}, 3, "x", false},
		{"since lines are kept", Line{Boot: 3, Since: "d e"}, 4, "x", true},
	} {
		if got := tt.line.Denies(5, tt.boot, tt.process); got != tt.want {
			t.Errorf("%s: Denies returns %t", tt.name, got)
		}
	}
}

// TestLine_Long checks that the oldest starts after the announced one are dropped from a long line, and
// that Denies then returns true for them.
func TestLine_Long(t *testing.T) {
	l := Line{Boot: 1, Process: "1"}
	const newest = 2 * maxLine
	for boot := uint64(2); boot <= newest; boot++ {
		l = l.Raised(boot, fmt.Sprint(boot))
	}
	for boot, want := range map[uint64]bool{1: false, 2: true, newest - maxLine: true, newest - maxLine + 1: false, newest: false} {
		if got := l.Denies(newest, boot, fmt.Sprint(boot)); got != want {
			t.Errorf("start %d: Denies returns %t", boot, got)
		}
	}
	if l = l.Announced(newest); l != (Line{Boot: newest, Process: fmt.Sprint(newest)}) || l.Announced(newest) != l {
		t.Errorf("after the announcement: %+v", l)
	}
}

// TestLine_Kept checks that a line is durable, including one of maximum length.
func TestLine_Kept(t *testing.T) {
	dir := claimed(t, 1)
	s := openStore(t, Config{Dir: dir})
	for i := range uint64(maxLine + 10) {
		if i == 5 {
			must(t, s.NoteAnnounced())
		}
		raised, err := s.Raise(fmt.Sprintf("%026d", i+1))
		must(t, err)
		if got := raised.Line; i >= 5 && (got.Boot != 5 || got.Process != fmt.Sprintf("%026d", 5)) {
			t.Fatalf("start %d: %+v", i+1, got)
		}
	}
	want, _ := s.Identity()
	must(t, s.Close())
	s = openStore(t, Config{Dir: dir})
	if got, ok := s.Identity(); !ok || got.Line != want.Line {
		t.Errorf("read %+v, want %+v", got.Line, want.Line)
	}
}
