package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/redcon"
)

// scanAll returns the verdicts of a stream that arrives in pieces of the given size: the
// letter p, d or f for each reply. It also returns the bytes that were not consumed.
func scanAll(s *scanner, stream string, size int) (verdicts string, rest string, err error) {
	var b []byte
	for len(stream) > 0 {
		n := min(size, len(stream))
		b, stream = append(b, stream[:n]...), stream[n:]
		for len(b) > 0 {
			done, v, err := s.next(b)
			b = b[done:]
			if err != nil {
				return verdicts, string(b), err
			}
			if v == unfinished {
				break
			}
			verdicts += string("?pdf"[v])
		}
	}
	return verdicts, string(b), nil
}

func TestScanner(t *testing.T) {
	f := func(stream, want string) {
		t.Helper()
		for size := 1; size <= len(stream); size++ {
			got, rest, err := scanAll(&scanner{limiter: true}, stream, size)
			if got != want || rest != "" || err != nil {
				t.Errorf("%q in pieces of %d: verdicts %q, rest %q, error %v; want verdicts %q and no rest", stream, size, got, rest, err, want)
			}
		}
	}
	f("*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n", "p")
	f("*5\r\n:1\r\n:16\r\n:0\r\n:2\r\n:2\r\n", "d")
	f("*5\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n*5\r\n:0\r\n:1\r\n:1\r\n:1\r\n:1\r\n", "dp")
	f("+OK\r\n:1\r\n$2\r\nhi\r\n$-1\r\n*-1\r\n$0\r\n\r\n*0\r\n", "ppppppp")
	f("$7\r\n*1\r\n:1\n\r\n", "p")
	f("*2\r\n*1\r\n:1\r\n:1\r\n+OK\r\n", "pp")
	f("*2\r\n$1\r\na\r\n:1\r\n", "p")
	f("*2\r\n:10\r\n:1\r\n", "p")
	f("-ERR no\r\n-OOM\r\n+fine\r\n", "ffp")
	f("*2\r\n-ERR inside\r\n:1\r\n", "p")
}

func TestScannerJudgesOnlyLimiters(t *testing.T) {
	if got, _, err := scanAll(&scanner{}, "*1\r\n:1\r\n", 100); got != "p" || err != nil {
		t.Errorf("an array that begins with 1, for a command that is not a limiter: verdict %q, error %v; want p", got, err)
	}
}

func TestScannerText(t *testing.T) {
	s := &scanner{}
	if _, v, err := s.next([]byte("-ERR out of luck\r\n")); v != failed || string(s.text) != "ERR out of luck" || err != nil {
		t.Errorf("an error reply has verdict %v, text %q, error %v; want failed and the text after the hyphen", v, s.text, err)
	}
}

func TestScannerRefuses(t *testing.T) {
	for _, stream := range []string{"HTTP/1.1 400 Bad Request\r\n", "\r\n", "+\n", "$x\r\n", "$-2\r\n", "*99999999999999\r\n", "!3\r\n", "+OK\n\n"} {
		if _, _, err := scanAll(&scanner{}, stream, 1000); !errors.Is(err, errReply) {
			t.Errorf("%q: error %v; want errReply", stream, err)
		}
	}
}

// FuzzScanner checks that replies end at the same bytes as with the parser of redcon, and
// that the result does not depend on the sizes of the pieces in which a stream arrives.
func FuzzScanner(f *testing.F) {
	for _, s := range []string{"*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n", "+OK\r\n-ERR x\r\n", "*2\r\n$3\r\nabc\r\n*-1\r\n", "$-1\r\n$0\r\n\r\n"} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, stream string, size int) {
		s := &scanner{limiter: true}
		whole, rest, err := scanAll(s, stream, len(stream)+1)
		pieces, rest2, err2 := scanAll(&scanner{limiter: true}, stream, max(1, size%64))
		if whole != pieces || err == nil && rest != rest2 || fmt.Sprint(err) != fmt.Sprint(err2) {
			t.Fatalf("%q: in one piece: verdicts %q, rest %q, error %v; in pieces: verdicts %q, rest %q, error %v", stream, whole, rest, err, pieces, rest2, err2)
		}
		if err != nil || strings.Count(stream, "*") > 50 {
			return
		}
		left := stream
		for range whole {
			n, _ := redcon.ReadNextRESP([]byte(left))
			if n == 0 {
				return // redcon is stricter
			}
			left = left[n:]
		}
		if s.missing == 0 && left != rest {
			t.Errorf("stream %q: redcon leaves %q unread, the scanner leaves %q unread; want the same", stream, left, rest)
		}
	})
}

func BenchmarkScanner(b *testing.B) {
	reply := []byte("*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n")
	s := &scanner{limiter: true}
	b.ReportAllocs()
	for b.Loop() {
		if _, v, err := s.next(reply); v != passed || err != nil {
			b.Fatal(v, err)
		}
	}
}
