package resp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestSplitLine(t *testing.T) {
	tests := []struct{ line, want string }{
		{``, `[]`},
		{` `, `[]`},
		{`a`, `["a"]`},
		{`  a  bc `, `["a" "bc"]`},
		{"a\tb\nc\rd", `["a" "b" "c" "d"]`},
		{"\v\fa\vb\f", `["a\vb\f"]`},
		{`""`, `[""]`},
		{`'' ""`, `["" ""]`},
		{`"a b" 'c d'`, `["a b" "c d"]`},
		{`a"b"`, `["ab"]`},
		{`a"b c"`, `["ab c"]`},
		{`"\n\r\t\b\a"`, `["\n\r\t\b\a"]`},
		{`"\\ \" \' \z"`, `["\\ \" ' z"]`},
		{`"\x00\x7F\xfF"`, `["\x00\x7f\xff"]`},
		{`"\xg0\x0g\x4"`, `["xg0x0gx4"]`},
		{`"\x4"`, `["x4"]`},
		{`'\n\'\x41"'`, `["\\n'\\x41\""]`},
		{`'a\b'`, `["a\\b"]`},
		{`\n`, `["\\n"]`},
		{`save 900 1`, `["save" "900" "1"]`},
		{`requirepass "with # and \"quotes\""`, `["requirepass" "with # and \"quotes\""]`},
	}
	for _, tt := range tests {
		got, err := SplitLine(nil, []byte(tt.line))
		if s := fmt.Sprintf("%q", got); s != tt.want || err != nil {
			t.Errorf("%q: got %s, %v, want %s", tt.line, s, err, tt.want)
		}
	}
}

func TestSplitLineRefuses(t *testing.T) {
	for _, line := range []string{
		`"`, `'`, `"a`, `'a`, `a"`, `a'`, `"a'`, `'a"`, `"\"`, `"\`, `"a\x4`, `'\'`, `'a\\'`,
		`"a"b`, `"a"'b'`, `'a'b`, `'a'"b"`, `""""`, `ok "a`,
	} {
		if got, err := SplitLine(nil, []byte(line)); err != ErrQuotes {
			t.Errorf("%q: got %q, %v, want %v", line, got, err, ErrQuotes)
		}
	}
}

func TestSplitLineAppends(t *testing.T) {
	words := [][]byte{[]byte("first")}
	words, err := SplitLine(words, []byte(`"second"  third`))
	if got := fmt.Sprintf("%q", words); got != `["first" "second" "third"]` || err != nil {
		t.Errorf("got the words %s and the error %v, want first, second and third", got, err)
	}
}

func TestSplitLineAllocatesNothing(t *testing.T) {
	const text = `SET "a \x41 b" 'c d' e`
	line, words := make([]byte, len(text)), make([][]byte, 0, 4)
	split := func() {
		copy(line, text)
		words, _ = SplitLine(words[:0], line)
	}
	if n := testing.AllocsPerRun(100, split); n != 0 || len(words) != 4 {
		t.Errorf("%v allocations, words %q; want 0 allocations and 4 words", n, words)
	}
}

// TestSplitLineDoesNotPayForWords checks that a line of many words is rejected at the first word beyond the limit, so
// that no memory is allocated for the other words.
func TestSplitLineDoesNotPayForWords(t *testing.T) {
	words, err := splitLine(nil, bytes.Repeat([]byte("a "), 10000), 10)
	if err != ErrManyInline || len(words) != 10 || cap(words) > 20 {
		t.Errorf("got %d words with capacity %d and the error %v, want 10 words, capacity at most 20, and ErrManyInline", len(words), cap(words), err)
	}
}

// FuzzSplitLine compares SplitLine with referenceSplit, and checks that SplitLine returns any bytes unchanged if they
// are quoted with escapes.
func FuzzSplitLine(f *testing.F) {
	for _, s := range corpus {
		f.Add(s.seed())
	}
	f.Add([]byte(`"\x4`))
	f.Add([]byte(`a"\"b\x41" 'c\'d' \e`))
	f.Fuzz(func(t *testing.T, line []byte) {
		want, wantErr := referenceSplit(string(line))
		got, err := SplitLine(nil, bytes.Clone(line))
		if err != wantErr {
			t.Fatalf("%q: got %q, %v, want %q, %v", line, got, err, want, wantErr)
		}
		if err == nil && fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Fatalf("%q: got %q, want %q", line, got, want)
		}
		got, err = SplitLine(nil, quoteHex(line))
		if err != nil || len(got) != 1 || !bytes.Equal(got[0], line) {
			t.Fatalf("%q in quotes: got the words %q and the error %v, want one word with the same bytes", line, got, err)
		}
	})
}

func TestSplitLineAgainstReference(t *testing.T) {
	const telling = `"'\x4f n` + "\t\v\r"
	rnd := rand.New(rand.NewPCG(5, 6))
	refused := 0
	for range 50000 {
		line := make([]byte, rnd.IntN(12))
		for i := range line {
			line[i] = telling[rnd.IntN(len(telling))]
		}
		want, wantErr := referenceSplit(string(line))
		got, err := SplitLine(nil, bytes.Clone(line))
		if err != nil {
			refused++
		}
		if err != wantErr || err == nil && fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Fatalf("%q: got %q, %v, want %q, %v", line, got, err, want, wantErr)
		}
	}
	if refused < 5000 || refused > 45000 {
		t.Errorf("%d of 50000 lines were rejected, want 5000 to 45000: the test needs rejected and accepted lines", refused)
	}
}
