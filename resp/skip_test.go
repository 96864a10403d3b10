package resp

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
)

// wire encodes a command.
func wire(words ...string) string {
	var b strings.Builder
	b.WriteString("*" + strconv.Itoa(len(words)) + "\r\n")
	for _, w := range words {
		b.WriteString("$" + strconv.Itoa(len(w)) + "\r\n" + w + "\r\n")
	}
	return b.String()
}

// TestSkip skips commands after the first, and checks the number and the next command.
func TestSkip(t *testing.T) {
	short, long := wire("CHECK", "key", "1"), wire("CHECK", strings.Repeat("k", 100), "1")
	for _, test := range []struct {
		name, input string
		limit       int
		skipped     int
		next        string // first two words of the next command, "" if there is none
	}{
		{"nothing follows", short, 9, 0, ""},
		{"all", strings.Repeat(short, 4) + wire("PING"), 9, 3, "PING"},
		{"the limit", strings.Repeat(short, 4), 2, 2, "CHECK key"},
		{"no command", strings.Repeat(short, 4), 0, 0, "CHECK key"},
		{"other keys", short + wire("CHECK", "", "25") + wire("CHECK", "another key", "3") + wire("PING"), 9, 2, "PING"},
		{"other name", short + wire("CHECK2", "a", "1"), 9, 0, "CHECK2 a"},
		{"other name of the same length", short + wire("CHECX", "a", "1"), 9, 0, "CHECX a"},
		{"other number of arguments", short + wire("CHECK", "a"), 9, 0, "CHECK a"},
		{"long argument", short + long, 9, 0, "CHECK " + strings.Repeat("k", 100)},
		{"inline", short + "CHECK a 1\r\n", 9, 0, "CHECK a"},
		{"incomplete", short + short + short[:len(short)-1], 9, 1, ""},
		{"inline first", "CHECK a 1\r\n" + short + short + wire("PING"), 9, 2, "PING"},
	} {
		r := NewReader(Limits{Args: 10, Bulk: 1000, Inline: 1000, Query: 10000})
		if _, err := r.Fill(strings.NewReader(test.input)); err != nil {
			t.Fatalf("%s: fill: %v", test.name, err)
		}
		first, err := r.Next()
		if err != nil || len(first) != 3 {
			t.Fatalf("%s: the first command is %q, error %v", test.name, first, err)
		}
		if n := r.Skip(test.limit); n != test.skipped {
			t.Errorf("%s: skipped %d commands, want %d", test.name, n, test.skipped)
		}
		if string(first[0]) != "CHECK" {
			t.Errorf("%s: the arguments of the first command have changed to %q", test.name, first)
		}
		next, err := r.Next()
		if err != nil {
			t.Errorf("%s: next: %v", test.name, err)
		}
		if got := string(bytes.Join(next[:min(2, len(next))], []byte(" "))); got != test.next {
			t.Errorf("%s: the next command is %q, want %q", test.name, got, test.next)
		}
	}
}

// TestSkipLimits checks that Skip leaves commands beyond the limits to Next, which reports the error.
func TestSkipLimits(t *testing.T) {
	for _, bad := range []string{wire("CHECK", strings.Repeat("k", 21), "1"), "*3\r\n$5\r\nCHECK\r\n$1\r\nkXX$1\r\n1\r\n", "*3\r\n$5\r\nCHECK\r\n:1\r\n$1\r\n1\r\n"} {
		r := NewReader(Limits{Args: 10, Bulk: 20, Inline: 1000, Query: 1000})
		if _, err := r.Fill(strings.NewReader(wire("CHECK", "k", "1") + bad + wire("PING"))); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		if n := r.Skip(5); n != 0 {
			t.Errorf("%q: skipped %d commands, want 0", bad, n)
		}
		if args, err := r.Next(); err == nil {
			t.Errorf("%q: Next returned %q, want an error", bad, args)
		}
	}
}
