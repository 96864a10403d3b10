package httpauth

import (
	"strings"
	"testing"
)

func TestEqual(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{{"", "", true}, {"secret", "secret", true}, {"secret", "secreT", false}, {"secret", "Secret", false}, {"secret", "secre", false}, {"", "s", false}, {"\x01\x02", "\x02\x01", false}, {"ab", "ba", false}} {
		if got := Equal(c.a, c.b); got != c.want {
			t.Errorf("Equal(%q, %q) = %t, want %t", c.a, c.b, got, c.want)
		}
	}
	given := strings.Repeat("s", 100)
	if n := testing.AllocsPerRun(10, func() { Equal(given, given) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		header, user, password string
		ok                     bool
	}{
		{"Bearer secret", "", "secret", true},
		{"bearer  app:secret", "", "app:secret", true},
		{"Bearer", "", "", true},
		{"Basic YXBwOnA6dw==", "app", "p:w", true},
		{"BASIC YXBwOg==", "app", "", true},
		{"Basic OnB3", "", "pw", true},
		{"Basic YXBw", "app", "", false}, // without a colon
		{"Basic app:pw", "", "", false},
		{"Digest app", "", "", false},
		{"", "", "", false},
	} {
		user, password, ok := Parse(c.header)
		if ok != c.ok || ok && (user != c.user || password != c.password) {
			t.Errorf("Parse(%q) = %q, %q, %v; want %q, %q, %v", c.header, user, password, ok, c.user, c.password, c.ok)
		}
	}
}
