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
		{"as fast as it should", Passage{Real: 60 * s, Log: 60 * s}, false},
		{"read late", Passage{Real: 60 * s, Log: 61 * s}, false},
		{"ahead", Passage{Real: 60 * s, Log: 62 * s, Terms: 9, Silence: 9 * s}, true},
		{"it stands", Passage{Real: 60 * s}, true},
		{"it stood for two seconds", Passage{Real: 60 * s, Log: 58 * s}, true},
		{"while nobody led", Passage{Real: 60 * s, Log: 58 * s, Silence: s}, false},
		{"while others were elected", Passage{Real: 60 * s, Log: 58 * s, Terms: 2}, false},
	} {
		if err := tt.p.Check(); (err != nil) != tt.bad {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
