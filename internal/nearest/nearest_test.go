package nearest

import (
	"strings"
	"testing"
)

func TestWord(t *testing.T) {
	choices := []string{"port", "part", "timeout", "maxmemory", strings.Repeat("a", 64)}
	for word, want := range map[string]string{
		"prot": "port", "port": "port", "PART": "part", "pxrt": "port", "Time-Out": "timeout", "maxmem": "maxmemory",
		"nope": "", "x": "", "": "", strings.Repeat("a", 63): strings.Repeat("a", 64), strings.Repeat("a", 65): "",
	} {
		if got := Word(word, choices); got != want {
			t.Errorf("Word(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0},
		{"kitten", "sitting", 3}, {"abc", "acb", 2}, {"flaw", "lawn", 2},
	} {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
