package resp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"weak"
)

// outcome is the result of reading all bytes of one connection.
type outcome struct {
	commands []string // the arguments of each command, formatted with %q
	err      error
}

func (o outcome) equals(p outcome) bool {
	return strings.Join(o.commands, " ") == strings.Join(p.commands, " ") && o.err == p.err
}

func (o outcome) String() string {
	s := strings.Join(o.commands, " ")
	if len(s) > 500 {
		s = fmt.Sprintf("%s... (%d bytes)", s[:500], len(s))
	}
	return fmt.Sprintf("%s, error %v", s, o.err)
}

func (s sample) outcome() outcome {
	if s.want == "" {
		return outcome{nil, s.err}
	}
	return outcome{[]string{s.want}, s.err}
}

// pieces is a connection that returns the strings in order, at most one per read.
type pieces []string

func (p *pieces) Read(b []byte) (int, error) {
	if len(*p) == 0 {
		return 0, io.EOF
	}
	n := copy(b, (*p)[0])
	if (*p)[0] = (*p)[0][n:]; (*p)[0] == "" {
		*p = (*p)[1:]
	}
	return n, nil
}

// readAll reads everything that a connection delivers. It fails the test if the Reader holds too much memory for the
// bytes received, or if Next does not repeat an error.
func readAll(tb testing.TB, l Limits, src pieces) outcome {
	tb.Helper()
	var o outcome
	r := NewReader(l)
	for came := 0; ; {
		n, err := r.Fill(&src)
		came += n
		if most := max(fullBuffer, 2*min(came, l.Query)); len(r.buf) > most {
			tb.Fatalf("the buffer has %d bytes, which is too much for %d received bytes and Limits.Query %d", len(r.buf), came, l.Query)
		}
		if err == io.EOF {
			return o
		}
		for {
			args, err := r.Next()
			if err != nil {
				o.err = err
				if args, again := r.Next(); args != nil || again != err {
					tb.Fatalf("after the error %v, Next returns %q and the error %v, want nil and the same error", err, args, again)
				}
				return o
			}
			if args == nil {
				break
			}
			o.commands = append(o.commands, fmt.Sprintf("%q", args))
		}
	}
}

func bytewise(input string) pieces { return strings.Split(input, "") }

func randomCuts(rnd *rand.Rand, input []byte) (p pieces) {
	most := 1 << rnd.IntN(16)
	for len(input) > 0 {
		n := min(1+rnd.IntN(most), len(input))
		p = append(p, string(input[:n]))
		input = input[n:]
	}
	return p
}

func TestReaderReadsTheCorpus(t *testing.T) {
	for _, s := range corpus {
		if got := readAll(t, s.limits, pieces{s.input}); !got.equals(s.outcome()) {
			t.Errorf("%s: got %s, want %s", s.name, got, s.outcome())
		}
	}
}

// TestReaderBetweenGoodCommands reads samples of the corpus with a PING before and after each. It skips incomplete
// samples, and samples with other limits than authenticatedLimits. The first PING must always be returned. The second
// PING must not be returned if the sample causes an error.
func TestReaderBetweenGoodCommands(t *testing.T) {
	for _, s := range corpus {
		if s.limits != authenticatedLimits || strings.HasPrefix(s.name, "unfinished") {
			continue
		}
		want := []string{`["PING"]`}
		if s.want != "" {
			want = append(want, s.want)
		}
		if s.err == nil {
			want = append(want, `["PING"]`)
		}
		got := readAll(t, s.limits, pieces{ping + s.input + ping})
		if want := (outcome{want, s.err}); !got.equals(want) {
			t.Errorf("%s: got %s, want %s", s.name, got, want)
		}
	}
}

func TestReaderAnyPieces(t *testing.T) {
	for _, s := range corpus {
		want := s.outcome()
		if got := readAll(t, s.limits, bytewise(s.input)); !got.equals(want) {
			t.Errorf("%s, byte by byte: got %s, want %s", s.name, got, want)
		}
		step := 1 + len(s.input)/300 // tries every position, or about 300 positions of a long input
		for cut := 1; cut < len(s.input); cut += step {
			if got := readAll(t, s.limits, pieces{s.input[:cut], s.input[cut:]}); !got.equals(want) {
				t.Errorf("%s, cut at %d: got %s, want %s", s.name, cut, got, want)
			}
		}
	}
}

func TestReaderAnyPiecesOfLongPipelines(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 4 {
		input := randomPipeline(rnd, 2000)
		want := reference(authenticatedLimits, string(input))
		if want.err != nil {
			t.Fatalf("the random pipeline is invalid: %v", want.err)
		}
		for range 5 {
			if got := readAll(t, authenticatedLimits, randomCuts(rnd, input)); !got.equals(want) {
				t.Fatalf("a random pipeline, read in random pieces: got %s, want %s", got, want)
			}
		}
	}
}

func TestReaderLimits(t *testing.T) {
	wide := Limits{Args: 100, Bulk: 100, Inline: 100, Query: 1000}
	narrow := func(change func(*Limits)) Limits {
		l := wide
		change(&l)
		return l
	}
	args := narrow(func(l *Limits) { l.Args = 3 })
	bulk := narrow(func(l *Limits) { l.Bulk = 12 })
	line := narrow(func(l *Limits) { l.Inline = 4 })
	query := narrow(func(l *Limits) { l.Query = 28 })
	unauthenticated := func(l Limits) Limits { l.Unauthenticated = true; return l }

	tests := []struct {
		name       string
		limits     Limits
		at, beyond string
		want       string // the commands at the limit
		err        error  // the error beyond the limit
	}{
		{"count", args, "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n", "*4\r\n", `["a" "b" "c"]`, ErrCount},
		{"count, unauthenticated", unauthenticated(args), "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n", "*4\r\n", `["a" "b" "c"]`, ErrUnauthenticatedCount},
		{"words", args, "a b c \r\n", "a b c d\r\n", `["a" "b" "c"]`, ErrManyInline},
		{"words, unauthenticated", unauthenticated(args), "a b c \r\n", "a b c \"\r\n", `["a" "b" "c"]`, ErrManyInline},
		{"length", bulk, "*1\r\n$12\r\nabcdefghijkl\r\n", "*1\r\n$13\r\n", `["abcdefghijkl"]`, ErrLength},
		{"length, unauthenticated", unauthenticated(bulk), "*1\r\n$12\r\nabcdefghijkl\r\n", "*1\r\n$13\r\n", `["abcdefghijkl"]`, ErrUnauthenticatedLength},
		{"inline request", line, "PING\n", "PINGS\n", `["PING"]`, ErrLongInline},
		{"line with CR", line, "PIN\r\n", "PING\r\n", `["PIN"]`, ErrLongInline},
		{"line without its end", line, "PING", "PINGS", ``, ErrLongInline},
		{"line with a count", line, "*-9\r\n", "*-10\r\n", ``, ErrLongCount},
		{"short line with a count", narrow(func(l *Limits) { l.Inline = 3 }), "*1\r\n$1\r\na\r\n", "*10\r\n", `["a"]`, ErrLongCount},
		{"line with a length", line, "*1\r\n$10\r\nabcdefghij\r\n", "*1\r\n$100\r\n", `["abcdefghij"]`, ErrLongLength},
		{"query", query, "*2\r\n$3\r\nabc\r\n$9\r\nabcdefghi\r\n", "*2\r\n$3\r\nabc\r\n$10\r\n", `["abc" "abcdefghi"]`, ErrQueryTooLong},
		{"query, exceeded by the first length", query, "*1\r\n$17\r\nabcdefghijklmnopq\r\n", "*1\r\n$18\r\n", `["abcdefghijklmnopq"]`, ErrQueryTooLong},
		{"query, exceeded by many empty arguments", query, "*5\r\n" + strings.Repeat("$0\r\n\r\n", 4), "*5\r\n" + strings.Repeat("$0\r\n\r\n", 4) + "$", ``, ErrQueryTooLong},
		{"query, exceeded by one line", query, strings.Repeat("a", 27) + "\n", strings.Repeat("a", 28) + "\n", `["aaaaaaaaaaaaaaaaaaaaaaaaaaa"]`, ErrQueryTooLong},
		{"query, per command", query, strings.Repeat(ping, 2) + "PING\n", ping + strings.Repeat("a", 28), `["PING"] ["PING"] ["PING"]`, ErrQueryTooLong},
		{"no limit", Limits{math.MaxInt, math.MaxInt, math.MaxInt, math.MaxInt, false}, "*1\r\n$1\r\na\r\n",
			"*9223372036854775807\r\n$9223372036854775807\r\n", `["a"]`, ErrQueryTooLong},
	}
	for _, tt := range tests {
		for _, cut := range []func(string) pieces{bytewise, func(s string) pieces { return pieces{s} }} {
			got := readAll(t, tt.limits, cut(tt.at))
			if strings.Join(got.commands, " ") != tt.want || got.err != nil {
				t.Errorf("%s, at the limit: got %s, want %s", tt.name, got, tt.want)
			}
			if got := readAll(t, tt.limits, cut(tt.beyond)); got.err != tt.err {
				t.Errorf("%s, beyond the limit: got %s, want error %v", tt.name, got, tt.err)
			}
		}
	}
}

func TestReaderSetLimits(t *testing.T) {
	r := NewReader(unauthenticatedLimits)
	src := pieces{"AUTH secret\r\n*11\r\n" + strings.Repeat("$1\r\na\r\n", 11) + "*11\r\n"}
	if _, err := r.Fill(&src); err != nil {
		t.Fatal(err)
	}
	if args, err := r.Next(); err != nil || len(args) != 2 {
		t.Fatalf("unauthenticated: got the arguments %q and the error %v, want 2 arguments", args, err)
	}
	r.SetLimits(authenticatedLimits)
	if args, err := r.Next(); err != nil || len(args) != 11 {
		t.Fatalf("authenticated: got the arguments %q and the error %v, want 11 arguments", args, err)
	}
	r.SetLimits(unauthenticatedLimits)
	if args, err := r.Next(); err != ErrUnauthenticatedCount {
		t.Fatalf("unauthenticated again: got the arguments %q and the error %v, want ErrUnauthenticatedCount", args, err)
	}
}

func TestReaderPending(t *testing.T) {
	r := NewReader(authenticatedLimits)
	src := pieces{ping, ping[:6], ping[6:] + "PI", "NG\r\n"}
	for i, want := range []int{0, 6, 2, 0} {
		if _, err := r.Fill(&src); err != nil {
			t.Fatal(err)
		}
		drain(t, r)
		if got := r.Pending(); got != want {
			t.Errorf("after piece %d: Pending returns %d, want %d", i, got, want)
		}
	}
}

func TestReaderFillReturnsSourceErrors(t *testing.T) {
	broken := errors.New("broken")
	r := NewReader(authenticatedLimits)
	n, err := r.Fill(readerFunc(func(b []byte) (int, error) { return copy(b, ping), broken }))
	if n != len(ping) || err != broken {
		t.Errorf("Fill returns %d, %v, want %d, %v", n, err, len(ping), broken)
	}
	if n := drain(t, r); n != 1 {
		t.Errorf("got %d commands from the bytes returned with the error, want 1", n)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// TestReaderArgumentsDoNotTouch checks that an append to an argument does not overwrite the
// next argument.
func TestReaderArgumentsDoNotTouch(t *testing.T) {
	for _, input := range []string{"*2\r\n$1\r\na\r\n$1\r\nb\r\n", "a b\r\n", "\"a\" 'b'\r\n"} {
		r := NewReader(authenticatedLimits)
		_, _ = r.Fill(&pieces{input})
		args, err := r.Next()
		if err != nil || len(args) != 2 {
			t.Fatalf("got the arguments %q and the error %v, want two arguments", args, err)
		}
		_ = append(args[0], "overwrites the bytes that follow"...)
		if string(args[1]) != "b" {
			t.Errorf("%q: an append to the first argument has changed the second argument to %q, want b", input, args[1])
		}
	}
}

func TestReaderAllocatesNothing(t *testing.T) {
	for _, depth := range []int{1, 16, 100, 1000} {
		src := &endless{text: bytes.Repeat([]byte(throttleCommand), depth), most: depth * len(throttleCommand)}
		r := NewReader(authenticatedLimits)
		read := func() {
			_, _ = r.Fill(src)
			drain(t, r)
		}
		for range 8 { // until the buffer has its final size
			read()
		}
		if n := testing.AllocsPerRun(1000, read); n != 0 {
			t.Errorf("%d commands per read: %v allocations, want 0", depth, n)
		}
	}
}

func TestReaderDoesNotPayForClaims(t *testing.T) {
	l := Limits{Args: 1 << 20, Bulk: 1 << 20, Inline: 64 << 10, Query: 4 << 20}
	r := NewReader(l)
	_, _ = r.Fill(&pieces{"\n"})
	drain(t, r)
	for _, claim := range []string{"*1000000\r\n", "$4\r\nECHO\r\n", "$400000\r\n", "x"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = r.Fill(&pieces{claim})
		drain(t, r)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 10000 {
			t.Errorf("reading %q allocates %d bytes, want at most 10000", claim, n)
		}
		if most := firstBuffer + 4*(spanSize+argSize); r.Size() > most {
			t.Errorf("after %q the Reader holds %d bytes, want at most %d", claim, r.Size(), most)
		}
	}
	for came := 1; came < 400000; came += 1000 {
		_, _ = r.Fill(&pieces{strings.Repeat("x", 1000)})
		drain(t, r)
		if most := max(fullBuffer, 2*r.Pending()); len(r.buf) > most {
			t.Fatalf("the buffer has %d bytes, which is too much for about %d received bytes", len(r.buf), came)
		}
	}
}

// TestReaderGivesBack checks that the Reader frees the memory for a long argument, or for many arguments, before it
// waits for the next command, even if one byte of that command has already arrived.
func TestReaderGivesBack(t *testing.T) {
	long := fmt.Sprintf("*1\r\n$%d\r\n%s\r\n", authenticatedLimits.Bulk, strings.Repeat("x", authenticatedLimits.Bulk))
	many := "*1000\r\n" + strings.Repeat("$60\r\n"+strings.Repeat("x", 60)+"\r\n", 1000)
	for _, command := range []string{long, many} {
		for _, rest := range []string{"", "P"} {
			r := NewReader(authenticatedLimits)
			for src := (pieces{command + rest}); len(src) > 0; {
				_, _ = r.Fill(&src)
				drain(t, r)
			}
			if r.Size() < len(command) {
				t.Fatalf("the Reader holds %d bytes, less than its last command of %d bytes, so this test checks nothing", r.Size(), len(command))
			}
			old := weak.Make(&r.buf[0])
			_, _ = r.Fill(&pieces{}) // an idle connection blocks in Fill
			if most := fullBuffer + fullArgs*(spanSize+argSize); r.Size() > most || r.Pending() != len(rest) {
				t.Errorf("the Reader holds %d bytes, and %d bytes are pending; want at most %d bytes, and pending only the bytes after the command", r.Size(), r.Pending(), most)
			}
			runtime.GC()
			if old.Value() != nil {
				t.Error("the large buffer is still referenced")
			}
			runtime.KeepAlive(r)
		}
	}
}

// TestReaderLooksAtNoByteTwice reads long commands byte by byte. Bytes that were searched for a line end must not be
// searched again, and pending bytes may be moved only to a larger buffer. Otherwise the time would be quadratic in the
// length of the command.
func TestReaderLooksAtNoByteTwice(t *testing.T) {
	inline := strings.Repeat("x", authenticatedLimits.Inline-1)
	array := "*1000\r\n" + strings.Repeat("$60\r\n"+strings.Repeat("x", 60)+"\r\n", 1000)
	for _, input := range []string{inline, array[:len(array)-1]} {
		r := NewReader(authenticatedLimits)
		buffers := 0
		for i, size := 0, 0; i < len(input); i++ {
			_, _ = r.Fill(&pieces{input[i : i+1]})
			drain(t, r)
			if r.start != 0 || r.Pending() != i+1 {
				t.Fatalf("at byte %d: %d bytes are pending from offset %d, want all bytes from offset 0", i, r.Pending(), r.start)
			}
			if unknown := r.Pending() - r.parsed - r.scanned; r.length < 0 && unknown != 0 {
				t.Fatalf("at byte %d: %d bytes will be searched again, want 0", i, unknown)
			}
			if len(r.buf) != size {
				size = len(r.buf)
				buffers++
			}
		}
		if buffers > 7 {
			t.Errorf("%d buffers were allocated for %d bytes, want at most 7", buffers, len(input))
		}
	}
}

// TestReaderGrowth checks that Growth predicts each larger buffer that Fill allocates.
func TestReaderGrowth(t *testing.T) {
	t.Parallel()
	r := NewReader(Limits{Args: 10, Bulk: 1 << 20, Inline: 1 << 16, Query: 1 << 20})
	src := strings.NewReader("*2\r\n$4\r\nECHO\r\n$300000\r\n" + strings.Repeat("x", 300_000) + "\r\n")
	grown := 0
	for src.Len() > 0 {
		before, growth := len(r.buf), r.Growth()
		if _, err := r.Fill(src); err != nil {
			t.Fatal(err)
		}
		if after := len(r.buf); after > before && growth != after || after <= before && growth != 0 {
			t.Fatalf("Fill has changed the buffer from %d to %d bytes, but Growth has returned %d", before, after, growth)
		}
		grown += growth
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if grown < 300_000 {
		t.Errorf("Growth has returned %d bytes in total, want at least 300000", grown)
	}
}
