package check

import (
	"testing"
	"time"
)

func TestPassage(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		name string
		p    Passage
		bad  bool
	}{
		{"equally fast", Passage{Real: 60 * s, Log: 60 * s}, false},
		{"read late", Passage{Real: 60 * s, Log: 61 * s}, false},
		{"ahead", Passage{Real: 60 * s, Log: 62 * s, Terms: 9, Silence: 9 * s}, true},
		{"stopped", Passage{Real: 60 * s}, true},
		{"stopped for two seconds", Passage{Real: 60 * s, Log: 58 * s}, true},
		{"without a leader", Passage{Real: 60 * s, Log: 58 * s, Silence: s}, false},
		{"during elections", Passage{Real: 60 * s, Log: 58 * s, Terms: 2}, false},
	} {
		if err := tt.p.Check(); (err != nil) != tt.bad {
			t.Errorf("%s: Check returns %v; want an error only in a bad case", tt.name, err)
		}
	}
}
