package httpauth

import (
	"net/http"
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

// FuzzParse compares Parse with net/http for the scheme Basic, and checks that all other accepted headers are those of Bearer. It
// also compares Equal with the operator.
func FuzzParse(f *testing.F) {
	for _, header := range []string{
		"", " ", "Bearer", "Bearer secret", "bearer  app:secret ", "Basic YXBwOnA6dw==", "BASIC   YXBwOg==", "Basic YXBw", "Basic YXBwOnA6dw", "Basic YXBwOnA6dw==\r\n", "Basic app:pw", "Basic", "Basic\tYXBwOg==", "Digest app", "Bas\u0131c YXBwOg==", "\x00",
	} {
		f.Add(header, "secret")
	}
	f.Fuzz(func(t *testing.T, header, other string) {
		user, password, ok := Parse(header)
		scheme, value, _ := strings.Cut(header, " ")
		value = strings.TrimLeft(value, " ")
		if strings.EqualFold(scheme, "Basic") {
			r := http.Request{Header: http.Header{"Authorization": {"Basic " + value}}}
			if u, p, known := r.BasicAuth(); known != ok || ok && (u != user || p != password) {
				t.Errorf("%q: %q, %q, %t; net/http returns %q, %q, %t", header, user, password, ok, u, p, known)
			}
		} else if bearer := strings.ToLower(scheme) == "bearer"; ok != bearer || ok && (user != "" || password != value) {
			t.Errorf("%q: %q, %q, %t; want the password %q, %t", header, user, password, ok, value, bearer)
		}
		if Equal(password, other) != (password == other) || !Equal(other, strings.Clone(other)) {
			t.Errorf("Equal(%q, %q) is wrong", password, other)
		}
	})
}
