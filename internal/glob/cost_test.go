package glob

import (
	"strings"
	"testing"
)

// hostile returns a pattern and a text for which a backtracking matcher tries every way of
// dividing the text among the stars.
func hostile(stars, length int) (pattern, s string) {
	return strings.Repeat("a*", stars) + "b", strings.Repeat("a", length)
}

// TestMatch_Cost would not finish if Match tried every way of dividing the text among the stars: with 64
// stars and 4096 bytes, there are about 10^140 ways.
func TestMatch_Cost(t *testing.T) {
	pattern, s := hostile(64, 4096)
	if Match(pattern, s) {
		t.Errorf("a text without the letter b matches the pattern")
	}
	if !Match(pattern, s+"b") {
		t.Errorf("a text that ends with the letter b does not match the pattern")
	}
}

// TestMatch_LongTail tests the worst case of the implementation: at nearly every byte of the
// text, a match attempt fails only at the last byte of the pattern.
func TestMatch_LongTail(t *testing.T) {
	pattern, s := "*"+strings.Repeat("a", 500)+"b", strings.Repeat("a", 20000)
	if Match(pattern, s) {
		t.Errorf("a text without the letter b matches the pattern")
	}
	if !Match(pattern, s+"b") {
		t.Errorf("a text that ends with the letter b does not match the pattern")
	}
}

func TestMatch_DoesNotAllocate(t *testing.T) {
	pattern, s := []byte("user:*:[a-z0-9]?*"), []byte("user:eu:west:7f3a")
	n := testing.AllocsPerRun(100, func() {
		if !Match(pattern, s) || !MatchFold("USER:*", s) {
			t.Fatal("one of the patterns does not match its text")
		}
	})
	if n != 0 {
		t.Errorf("a match allocates %v times, want 0", n)
	}
}

func BenchmarkMatch(b *testing.B) {
	key := []byte("tenant:4711:user:1234567")
	hostilePattern, hostileText := hostile(8, 64)
	for _, bench := range []struct{ name, pattern, s string }{
		{"prefix", "tenant:4711:*", string(key)},
		{"middle", "*:user:[0-9]*", string(key)},
		{"hostile", hostilePattern, hostileText},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			s := []byte(bench.s)
			for b.Loop() {
				Match(bench.pattern, s)
			}
		})
	}
}
