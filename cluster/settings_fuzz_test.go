package cluster

import (
	"errors"
	"testing"
)

// FuzzParseSettings checks that parsed settings have a valid heartbeat and can be written again, and that all errors wrap
// errEntry.
func FuzzParseSettings(f *testing.F) {
	for _, text := range []string{`{"term":1,"heartbeat_ms":250}`, `{"term":2,"settled":3}`, `{"heartbeat_ms":1}`, `{}`, `[`, ``} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parseSettings(append([]byte{settingsEntry}, text...))
		if err != nil {
			if !errors.Is(err, errEntry) {
				t.Errorf("error %v, want one that wraps errEntry", err)
			}
			return
		}
		entry, err := s.entry()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := parseSettings(entry); err != nil || again != s {
			t.Errorf("%+v is parsed as %+v, error %v, after it was written", s, again, err)
		}
	})
}
