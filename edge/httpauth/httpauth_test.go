package httpauth

import "testing"

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
