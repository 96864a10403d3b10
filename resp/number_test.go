package resp

import (
	"math"
	"strconv"
	"strings"
	"testing"
)

// numbers holds edge cases for a parser of integers.
var numbers = []string{
	"", "-", "+", "--1", "+-1", "-+1", "0", "-0", "+0", "00", "-00", "1", "-1", "+1", "01", "-01", "+01", "9", "10", "99",
	" 1", "1 ", "1\x00", "1.0", "1e3", "0x1", "1_000", "a", "1a", "a1", "/", ":", "\xff",
	"9223372036854775806", "9223372036854775807", "9223372036854775808", "9223372036854775809",
	"-9223372036854775807", "-9223372036854775808", "-9223372036854775809",
	"+9223372036854775807", "+9223372036854775808",
	"18446744073709551609", "18446744073709551610", "18446744073709551614", "18446744073709551615",
	"18446744073709551616", "18446744073709551617", "-18446744073709551617", "36893488147419103233",
	"99999999999999999999", "100000000000000000000", "0000000000000000000000000000000001",
	"-0000000000000000000000000000000001", "00000000000000000000",
}

func TestParse(t *testing.T) {
	for _, s := range numbers {
		checkParsers(t, s)
	}
	for n := -1100; n <= 1100; n++ {
		checkParsers(t, strconv.Itoa(n))
	}
}

// TestParseByHand tests a few numbers without strconv, in case the parsers and strconv have
// the same bug.
func TestParseByHand(t *testing.T) {
	tests := []struct {
		text            string
		n               int64
		asInt, asSigned bool
	}{
		{"0", 0, true, true},
		{"-0", 0, false, true},
		{"+1", 1, false, true},
		{"007", 7, false, true},
		{"-007", -7, false, true},
		{"42", 42, true, true},
		{"-42", -42, true, true},
		{"9223372036854775807", 1<<63 - 1, true, true},
		{"-9223372036854775808", -1 << 63, true, true},
		{"9223372036854775808", 0, false, false},
		{"-", 0, false, false},
		{"", 0, false, false},
	}
	for _, tt := range tests {
		if n, ok := ParseSigned([]byte(tt.text)); n != tt.n || ok != tt.asSigned {
			t.Errorf("ParseSigned(%q): got the number %d and ok %v, want n and asSigned of the table row with this text", tt.text, n, ok)
		}
		if n, ok := ParseInt([]byte(tt.text)); ok != tt.asInt || ok && n != tt.n {
			t.Errorf("ParseInt(%q): got the number %d and ok %v, want n and asInt of the table row with this text", tt.text, n, ok)
		}
	}
}

func FuzzParseInt(f *testing.F) {
	for _, s := range numbers {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { checkParsers(t, s) })
}

// checkParsers compares the parsers with strconv, which accepts the same texts as
// ParseSigned. ParseInt must accept only the shortest form of each number.
func checkParsers(t *testing.T, s string) {
	t.Helper()
	want, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		want = 0
	}
	if n, ok := ParseSigned([]byte(s)); n != want || ok != (err == nil) {
		t.Errorf("ParseSigned(%q): got %d, %v, want %d, %v", s, n, ok, want, err == nil)
	}
	want, isInt := referenceInt(s)
	if !isInt {
		want = 0
	}
	if n, ok := ParseInt([]byte(s)); n != want || ok != isInt {
		t.Errorf("ParseInt(%q): got %d, %v, want %d, %v", s, n, ok, want, isInt)
	}
}

func TestParseAllocatesNothing(t *testing.T) {
	text := []byte("-" + strings.Repeat("9", 18))
	if n := testing.AllocsPerRun(100, func() { ParseInt(text); ParseSigned(text) }); n != 0 {
		t.Errorf("ParseInt and ParseSigned make %v allocations, want 0", n)
	}
}

func TestAppendLine(t *testing.T) {
	numbers := []int64{0, -1, math.MaxInt64, math.MinInt64, math.MinInt64 + 1}
	for p := int64(1); ; p *= 10 {
		numbers = append(numbers, p, p-1, p+1, -p, -p+1, -p-1)
		if p == 1_000_000_000_000_000_000 {
			break
		}
	}
	for _, n := range numbers {
		checkLine(t, n)
	}
}

// checkLine compares appendLine with strconv, for buffers with room for none, some or all bytes of the line.
func checkLine(t *testing.T, n int64) {
	t.Helper()
	want := "x:" + strconv.FormatInt(n, 10) + "\r\n"
	for room := range len(want) + 1 {
		b := append(make([]byte, 0, 1+room), 'x')
		if got := string(appendLine(b, ':', n)); got != want {
			t.Fatalf("appendLine of %d returns %q if the buffer has room for %d bytes, want x, a colon, the number, CR and LF", n, got, room)
		}
	}
}

func FuzzAppendLine(f *testing.F) {
	f.Add(int64(0))
	f.Add(int64(-1))
	f.Add(int64(100_000))
	f.Add(int64(math.MinInt64))
	f.Fuzz(func(t *testing.T, n int64) { checkLine(t, n) })
}

func BenchmarkInt(b *testing.B) {
	var r Reply
	for b.Loop() {
		r.Int(1)
		r.Int(1_000_000)
		r.Int(999_983)
		r.Int(-1)
		r.Int(3600)
		r.Truncate(0, 1<<20)
	}
}
