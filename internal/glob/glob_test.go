package glob

import (
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	tests := []struct {
		pattern, s string
		want       bool
	}{
		// Literals and empty strings.
		{"", "", true},
		{"", "a", false},
		{"a", "", false},
		{"abc", "abc", true},
		{"abc", "abcd", false},
		{"abcd", "abc", false},
		{"abc", "ABC", false},
		{"\x00\xff", "\x00\xff", true},

		// Stars.
		{"*", "", true},
		{"**", "", true},
		{"*", "anything", true},
		{"user:*", "user:", true},
		{"user:*", "user:1", true},
		{"user:*", "users", false},
		{"*:1", "user:1", true},
		{"*:1", "user:12", false},
		{"a*b*c", "abc", true},
		{"a*b*c", "a-b-b-c", true},
		{"a*b*c", "a-c-b", false},
		{"***a***", "xxaxx", true},
		{"*a", "aaaa", true},
		{"a*a", "a", false},
		{"*ab*abc", "abababc", true},
		{"a***", "a", true},

		// Question marks.
		{"?", "", false},
		{"?", "x", true},
		{"h?llo", "hello", true},
		{"h?llo", "hllo", false},
		{"*?", "", false},
		{"*?", "x", true},
		{"?*?", "x", false},
		{"??*", "xy", true},

		// Classes.
		{"h[ae]llo", "hallo", true},
		{"h[ae]llo", "hillo", false},
		{"h[^e]llo", "hallo", true},
		{"h[^e]llo", "hello", false},
		{"[a-c]", "b", true},
		{"[a-c]", "d", false},
		{"[c-a]", "b", true},
		{"[^a-c]", "b", false},
		{"[a-c0-9]", "7", true},
		{"[a-c0-9]x", "7x", true},
		{"[-a]", "-", true},
		{"[a^]", "^", true},
		{"[\xf0-\xff]", "\xf8", true},
		{"*[a-c]*", "xxbxx", true},
		{"*[a-c]", "xxbxx", false},
		{"[]", "]", false},
		{"[]a]", "a]", false},
		{"[^]", "x", true},
		{"[*?]", "*", true},
		{"[*?]", "x", false},

		// Classes without a closing bracket.
		{"[", "[", false},
		{"[^", "x", true},
		{"[abc", "b", true},
		{"[abc", "x", false},
		{"[abc", "bc", false},
		{"[a-", "-", true},
		{"[a-]", "a", true},
		{"[a-]", "-", false},
		{"[a-]", "_", true},
		{"[a-]b", "b", true},
		{"x*[b", "xxb", true},

		// Escapes.
		{`\*`, "*", true},
		{`\*`, "x", false},
		{`\a`, "a", true},
		{`\\`, `\`, true},
		{`\`, `\`, true},
		{`a\`, `a\`, true},
		{`\[a]`, "[a]", true},
		{`[\]]`, "]", true},
		{`[\]a]b`, "ab", true},
		{`[\^a]`, "^", true},
		{`[a\-c]`, "b", false},
		{`[a\-c]`, "-", true},
		{`[\a-c]`, "b", false},
		{`[a-\]]`, "b]", false},
		{`[a-\]]`, "_]", true},
		{`[\`, `\`, true},
		{`[a\`, `\`, true},
	}
	for _, tt := range tests {
		if got := Match(tt.pattern, tt.s); got != tt.want {
			t.Errorf("Match(%q, %q) = %t, want %t", tt.pattern, tt.s, got, tt.want)
		}
		if got := Match([]byte(tt.pattern), []byte(tt.s)); got != tt.want {
			t.Errorf("Match of bytes(%q, %q) = %t, want %t", tt.pattern, tt.s, got, tt.want)
		}
		if got := reference(tt.pattern, tt.s); got != tt.want {
			t.Errorf("reference(%q, %q) = %t, want %t", tt.pattern, tt.s, got, tt.want)
		}
	}
}

func TestMatchFold(t *testing.T) {
	tests := []struct {
		pattern, s string
		want       bool
	}{
		{"TIMEOUT", "timeout", true},
		{"timeout", "TimeOut", true},
		{"MAX*", "maxmemory", true},
		{"[M-N]*", "maxmemory", true},
		{"[m-n]*", "MAXMEMORY", true},
		{"[^M]*", "maxmemory", false},
		{`\M*`, "maxmemory", true},
		{"@", "`", false}, // bytes next to the letters in ASCII are not folded
		{"[", "{", false},
		{"\xc9", "\xe9", false}, // only ASCII letters are folded
	}
	for _, tt := range tests {
		if got := MatchFold(tt.pattern, []byte(tt.s)); got != tt.want {
			t.Errorf("MatchFold(%q, %q) = %t, want %t", tt.pattern, tt.s, got, tt.want)
		}
	}
}

// reference defines the meaning of a pattern in the simplest form: a star matches nothing,
// or one byte followed by a match of the same star.
func reference(pattern, s string) bool {
	if pattern == "" {
		return s == ""
	}
	if pattern[0] == '*' {
		return reference(pattern[1:], s) || s != "" && reference(pattern, s[1:])
	}
	if s == "" {
		return false
	}
	allowed, rest := element(pattern)
	return allowed[s[0]] && reference(rest, s[1:])
}

// element returns the set of bytes that the first element of pattern matches, and the
// pattern after it.
func element(pattern string) (allowed [256]bool, rest string) {
	switch {
	case pattern[0] == '?':
		for c := range allowed {
			allowed[c] = true
		}
		return allowed, pattern[1:]
	case pattern[0] == '[':
		return class(pattern[1:])
	case pattern[0] == '\\' && len(pattern) > 1:
		pattern = pattern[1:]
	}
	allowed[pattern[0]] = true
	return allowed, pattern[1:]
}

// class is like element, for the pattern after an opening bracket.
func class(pattern string) (allowed [256]bool, rest string) {
	if inner, negated := strings.CutPrefix(pattern, "^"); negated {
		allowed, rest = members(inner)
		for c := range allowed {
			allowed[c] = !allowed[c]
		}
		return allowed, rest
	}
	return members(pattern)
}

// members parses the members of a class recursively.
func members(pattern string) (allowed [256]bool, rest string) {
	if pattern == "" {
		return allowed, ""
	}
	if pattern[0] == ']' {
		return allowed, pattern[1:]
	}
	from, to, width := pattern[0], pattern[0], 1
	if pattern[0] == '\\' && len(pattern) >= 2 {
		from, to, width = pattern[1], pattern[1], 2
	} else if len(pattern) >= 3 && pattern[1] == '-' {
		from, to, width = pattern[0], pattern[2], 3
	}
	allowed, rest = members(pattern[width:])
	for c := int(min(from, to)); c <= int(max(from, to)); c++ {
		allowed[c] = true
	}
	return allowed, rest
}

// TestMatch_Exhaustive compares Match with the reference for every short pattern of special bytes
// and letters.
func TestMatch_Exhaustive(t *testing.T) {
	texts := all("ab-", 3)
	for _, pattern := range all(`ab*?[]^-\`, 4) {
		for _, s := range texts {
			if got, want := Match(pattern, s), reference(pattern, s); got != want {
				t.Fatalf("Match(%q, %q) = %t, want %t", pattern, s, got, want)
			}
		}
	}
}

// all returns every string of at most n bytes of alphabet.
func all(alphabet string, n int) []string {
	out := []string{""}
	for from := 0; n > 0; n-- {
		to := len(out)
		for _, head := range out[from:to] {
			for _, c := range []byte(alphabet) {
				out = append(out, head+string(c))
			}
		}
		from = to
	}
	return out
}

func FuzzMatch(f *testing.F) {
	f.Add("*", "")
	f.Add("user:*", "user:42")
	f.Add("a*b*[^c-d]?", "aXbYYe")
	f.Add(`[a-\]]*\`, `_]\`)
	f.Add("[z-a", "m")
	f.Add("*\xff[\x80-\xf0]*", "\x01\xff\x90")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		if len(s) > 12 || strings.Count(pattern, "*") > 5 || len(pattern) > 64 {
			return // the reference takes exponential time
		}
		want := reference(pattern, s)
		if got := Match(pattern, s); got != want {
			t.Errorf("Match(%q, %q) = %t, want %t", pattern, s, got, want)
		}
		if want && !MatchFold(pattern, s) && !strings.Contains(pattern, "[") {
			t.Errorf("MatchFold(%q, %q) = false where Match is true", pattern, s)
		}
	})
}
