package server

import (
	"strings"
	"testing"
)

// TestWithout drops names from a list that others read.
func TestWithout(t *testing.T) {
	t.Parallel()
	list := []string{"a", "b", "c"}
	for name, want := range map[string]string{"a": "b c", "b": "a c", "c": "a b", "d": "a b c"} {
		if got := strings.Join(append(without(list, name), "e"), " "); got != want+" e" {
			t.Errorf("without %s: %q, want %q", name, got, want+" e")
		}
		if got := strings.Join(list, " "); got != "a b c" {
			t.Fatalf("without %s changes the list to %q", name, got)
		}
	}
	if got := without([]string{"a"}, "a"); got != nil {
		t.Errorf("without its last name: %q", got)
	}
}
