package check

import (
	"testing"
	"time"
)

func TestPressure(t *testing.T) {
	good := Pressure{Lasted: 2 * time.Second, Decided: 100, Least: 50, Limited: 1, Kills: 4, Changes: 2}
	for _, tt := range []struct {
		name string
		p    Pressure
		bad  bool
	}{
		{"enough", good, false},
		{"too few decisions", func(p Pressure) Pressure { p.Decided = 99; return p }(good), true},
		{"no refusals", func(p Pressure) Pressure { p.Limited = 0; return p }(good), true},
		{"no changes", func(p Pressure) Pressure { p.Changes = 0; return p }(good), true},
		{"too few changes", func(p Pressure) Pressure { p.Kills = 5; return p }(good), true},
		{"no kills, no changes", func(p Pressure) Pressure { p.Changes, p.Kills = 0, 0; return p }(good), true},
		{"changes without kills", func(p Pressure) Pressure { p.Kills = 0; return p }(good), false},
		{"no change of leader required", func(p Pressure) Pressure { p.Changes, p.Kills, p.Quiet = 0, 0, true; return p }(good), false},
	} {
		if err := tt.p.Check(); (err != nil) != tt.bad {
			t.Errorf("%s: Check returns %v; want an error only in a bad case", tt.name, err)
		}
	}
}
