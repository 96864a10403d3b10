package main

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/resp"
)

var testLayout = layout{keys: 1000, size: 8, prefix: "k:"}

func TestCommandAppend(t *testing.T) {
	f := func(template string, index, number, random int64, words ...string) {
		t.Helper()
		c, err := parseTemplate(template, testLayout)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := c.append(nil, index, number, random), encode(words); !bytes.Equal(got, want) {
			t.Errorf("%s is encoded as %q; want %q", template, got, want)
		}
	}
	f("PING", 0, 0, 0, "PING")
	f("CL.THROTTLE {key} 15 30 60", 42, 0, 0, "CL.THROTTLE", "k:000042", "15", "30", "60")
	f("SET a{key}b {n}", 7, 10, 0, "SET", "ak:000007b", "10")
	f("SET x:{n}:{rand} {n}", 0, 99, 1000, "SET", "x:99:1000", "99")
	f("SET {rand}{rand} ''", 0, 0, 12, "SET", "1212", "")
	f(`SET "a b" '{key}'`, 1, 0, 0, "SET", "a b", "k:000001")
	f(`SET {tag}{key}{ "\x00\r\n"`, 1, 0, 0, "SET", "{tag}k:000001{", "\x00\r\n")
	f("SET {{n}} {n", 0, 5, 0, "SET", "{5}", "{n")
}

func TestCommandJudgesDenials(t *testing.T) {
	for template, want := range map[string]bool{"CL.THROTTLE a 1 1 1": true, "cl.window a": true, "GET a": false, "CL": false} {
		if c, err := parseTemplate(template, testLayout); err != nil || c.limiter != want {
			t.Errorf("%q: limiter = %v; want %v", template, !want, want)
		}
	}
}

// FuzzTemplate checks that the encoding of any template is one command, whose words are
// those of the template with the placeholders replaced.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"PING", "SET {key} {n}", "a {rand}{rand", "{n}{{key}} '' \"\\x00\"", "}{ {}"} {
		f.Add(s, int64(7), int64(123), int64(0))
	}
	f.Fuzz(func(t *testing.T, template string, index, number, random int64) {
		if min(index, number, random) < 0 || index >= 1_000_000 {
			return
		}
		c, err := parseTemplate(template, testLayout)
		if err != nil {
			return
		}
		words, err := resp.SplitLine(nil, []byte(template))
		if err != nil {
			t.Fatalf("%q was accepted but cannot be split: %v", template, err)
		}
		fill := strings.NewReplacer("{key}", string(testLayout.append(nil, index)), "{n}", strconv.FormatInt(number, 10), "{rand}", strconv.FormatInt(random, 10))
		want := make([]string, len(words))
		for i, w := range words {
			want[i] = fill.Replace(string(w))
		}
		if got := c.append(nil, index, number, random); !bytes.Equal(got, encode(want)) {
			t.Errorf("%q is encoded as %q; want %q", template, got, encode(want))
		}
	})
}

func testWorkload(t *testing.T, args ...string) workload {
	t.Helper()
	c, err := parseFlags(args, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c.work
}

func TestSourceShareOfDenials(t *testing.T) {
	f := func(share float64) {
		t.Helper()
		const n = 100_000
		w := testWorkload(t, "-denied", strconv.FormatFloat(share, 'f', -1, 64), "-keys", "20000")
		stream := string(w.source(0, 0, 1).append(nil, n))
		used := float64(strings.Count(stream, "$1\r\n0\r\n$1\r\n1\r\n$8\r\n31536000\r\n"))
		if bound := 5 * math.Sqrt(n*share*(1-share)); math.Abs(used-n*share) > bound {
			t.Errorf("share %v: %v of %d requests are for exhausted keys; want within %v of %v", share, used, n, bound, n*share)
		}
		if total := strings.Count(stream, "*5\r\n"); total != n {
			t.Errorf("share %v: the stream has %d requests; want %d", share, total, n)
		}
	}
	f(0)
	f(0.1)
	f(0.5)
	f(1)
}

// TestSourceKeysApart checks that the exhausted keys differ from the other keys.
func TestSourceKeysApart(t *testing.T) {
	w := testWorkload(t, "-denied", "0.5", "-keys", "10", "-key-size", "8")
	stream := string(w.source(0, 0, 1).append(nil, 1000))
	for _, request := range strings.Split(stream, "*5\r\n")[1:] {
		words := strings.Split(request, "\r\n")
		index, err := strconv.Atoi(strings.TrimPrefix(words[3], "bench:"))
		if usedUp := words[len(words)-2] == "31536000"; err != nil || usedUp != (index >= 10) || index >= 20 {
			t.Fatalf("key %q is sent with period %q; want period 31536000 for the keys 10 to 19 only", words[3], words[len(words)-2])
		}
	}
}

func TestSourceIsReproducible(t *testing.T) {
	w := testWorkload(t, "-dist", "zipf", "-command", "SET {key} {rand}")
	stream := func(w workload, round, conn int) string { return string(w.source(round, conn, 4).append(nil, 100)) }
	same, reseeded := stream(w, 1, 2), w
	reseeded.seed++
	if stream(w, 1, 2) != same {
		t.Error("the same seed, round and connection return a different stream")
	}
	for name, other := range map[string]string{"round": stream(w, 2, 2), "connection": stream(w, 1, 3), "seed": stream(reseeded, 1, 2)} {
		if other == same {
			t.Errorf("another %s returns the same stream", name)
		}
	}
}

// TestSourceNumbers checks that the numbers of all connections together are consecutive.
func TestSourceNumbers(t *testing.T) {
	w := testWorkload(t, "-command", "ECHO {n}")
	for conn, want := range []string{"0 3 6", "1 4 7", "2 5 8"} {
		var got []string
		for _, line := range strings.Split(string(w.source(0, conn, 3).append(nil, 3)), "\r\n") {
			if line != "" && line[0] >= '0' && line[0] <= '9' {
				got = append(got, line)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("connection %d sends %v; want %s", conn, got, want)
		}
	}
}

func TestSourceAllocatesNothing(t *testing.T) {
	w := testWorkload(t, "-denied", "0.3", "-dist", "zipf")
	s, buf := w.source(0, 0, 1), make([]byte, 0, 64<<10)
	if n := testing.AllocsPerRun(100, func() { buf = s.append(buf[:0], 100) }); n != 0 {
		t.Errorf("100 requests take %v allocations; want 0", n)
	}
}

func BenchmarkSource(b *testing.B) {
	c, err := parseFlags(nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	s := c.work.source(0, 0, 1)
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = s.append(buf[:0], 1)
	}
}
