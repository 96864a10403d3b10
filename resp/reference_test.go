package resp

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// reference returns the outcome that a Reader must have for the complete input. It is simple and slow, and shares no
// parsing code with the Reader.
func reference(l Limits, input string) outcome {
	var o outcome
	for input != "" {
		command, size, err := referenceCommand(l, input)
		if err != nil {
			o.err = err
		}
		if err != nil || size == 0 {
			break
		}
		if len(command) > 0 {
			o.commands = append(o.commands, fmt.Sprintf("%q", command))
		}
		input = input[size:]
	}
	return o
}

// referenceCommand returns the command at the beginning of input and its size in bytes. The size is 0 if the command is
// incomplete.
func referenceCommand(l Limits, input string) (command []string, size int, err error) {
	if input[0] == '*' {
		return referenceArray(l, input)
	}
	line, size, err := referenceLine(l, input, 0, ErrLongInline)
	if size == 0 {
		return nil, 0, err
	}
	line = strings.TrimSuffix(line, "\r")
	for c := range byte(' ') {
		if strings.IndexByte("\t\n\v\f\r", c) < 0 && strings.IndexByte(line, c) >= 0 {
			return nil, 0, ErrControlByte
		}
	}
	command, err = referenceSplit(line)
	if len(command) > l.Args {
		err = ErrManyInline
	}
	return command, size, err
}

func referenceArray(l Limits, input string) (command []string, size int, err error) {
	count, at, err := referenceHead(l, input, 0, ErrLongCount, ErrCount)
	switch {
	case at == 0:
		return nil, 0, err
	case count > int64(l.Args) && l.Unauthenticated:
		return nil, 0, ErrUnauthenticatedCount
	case count > int64(l.Args):
		return nil, 0, ErrCount
	}
	for ; count > 0; count-- {
		if at == len(input) {
			return nil, 0, nil
		}
		if input[at] != '$' {
			return nil, 0, errNoDollar(input[at])
		}
		length, next, err := referenceHead(l, input, at, ErrLongLength, ErrLength)
		switch {
		case next == 0:
			return nil, 0, err
		case length > int64(l.Bulk) && l.Unauthenticated:
			return nil, 0, ErrUnauthenticatedLength
		case length > int64(l.Bulk) || length < 0:
			return nil, 0, ErrLength
		case next+int(length)+2 > l.Query:
			return nil, 0, ErrQueryTooLong
		case next+int(length)+2 > len(input):
			return nil, 0, nil
		}
		at = next + int(length)
		if input[at:at+2] != "\r\n" {
			return nil, 0, ErrTrailer
		}
		command = append(command, input[next:at])
		at += 2
	}
	return command, at, nil
}

// referenceHead returns the number after the type byte at input[at], and the index after the line with that number. The
// index is 0 if the line is incomplete or malformed.
func referenceHead(l Limits, input string, at int, tooLong, malformed error) (n int64, next int, err error) {
	line, next, err := referenceLine(l, input, at, tooLong)
	if next == 0 {
		return 0, 0, err
	}
	digits, ok := strings.CutSuffix(line[1:], "\r")
	n, isInt := referenceInt(digits)
	if !ok || !isInt {
		return 0, 0, malformed
	}
	return n, next, nil
}

// referenceLine returns the line that begins at input[at], without its LF, and the index after the LF. The index is 0
// if the LF is missing or the line is too long.
func referenceLine(l Limits, input string, at int, tooLong error) (line string, next int, err error) {
	for i := at; i <= len(input); i++ {
		if i-at > l.Inline {
			return "", 0, tooLong
		}
		if i+1 > l.Query {
			return "", 0, ErrQueryTooLong
		}
		if i < len(input) && input[i] == '\n' {
			return input[at:i], i + 1, nil
		}
	}
	return "", 0, nil
}

// referenceInt accepts an integer only in the form in which strconv formats it.
func referenceInt(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == s
}

var (
	spaces       = regexp.MustCompile(`^[ \t\n\v\f\r]+`)
	bareWord     = regexp.MustCompile(`^[^ \t\n\r"']*`)
	doubleQuoted = regexp.MustCompile(`^"((?s:\\.|[^"\\])*)"`)
	escapes      = regexp.MustCompile(`\\x[0-9a-fA-F]{2}|(?s:\\.)`)
)

// referenceSplit returns the words of line. If there is an error, it returns the words before the error and the invalid
// word, so that the caller can compare their number with Limits.Args.
func referenceSplit(line string) (words []string, err error) {
	for {
		line = line[len(spaces.FindString(line)):]
		if line == "" {
			return words, nil
		}
		word := bareWord.FindString(line)
		line = line[len(word):]
		if line != "" && (line[0] == '"' || line[0] == '\'') {
			text, size := referenceQuoted(line)
			if size == 0 {
				return append(words, word), ErrQuotes
			}
			word += text
			line = line[size:]
			if line != "" && !spaces.MatchString(line) {
				return append(words, word), ErrQuotes
			}
		}
		words = append(words, word)
	}
}

// referenceQuoted returns the quoted text at the beginning of line and the size of the text
// with its quotes. The size is 0 if the quotes are not closed.
func referenceQuoted(line string) (text string, size int) {
	if line[0] == '"' {
		m := doubleQuoted.FindStringSubmatch(line)
		if m == nil {
			return "", 0
		}
		return escapes.ReplaceAllStringFunc(m[1], referenceEscape), len(m[0])
	}
	for i := 1; i < len(line); i++ {
		if line[i] == '\'' && line[i-1] != '\\' {
			return strings.ReplaceAll(line[1:i], `\'`, `'`), i + 1
		}
	}
	return "", 0
}

func referenceEscape(s string) string {
	if plain, ok := map[string]string{`\n`: "\n", `\r`: "\r", `\t`: "\t", `\b`: "\b", `\a`: "\a"}[s]; ok {
		return plain
	}
	if len(s) == len(`\x41`) && s[1] == 'x' {
		n, _ := strconv.ParseUint(s[2:], 16, 8)
		return string([]byte{byte(n)})
	}
	return s[1:]
}

func TestReferenceAgreesWithCorpus(t *testing.T) {
	for _, s := range corpus {
		if got := reference(s.limits, s.input); !got.equals(s.outcome()) {
			t.Errorf("%s: got %s, want %s", s.name, got, s.outcome())
		}
	}
}

func TestReaderAgainstReference(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for range 20000 {
		l := randomLimits(rnd)
		input := randomPipeline(rnd, 1+rnd.IntN(6))
		for range rnd.IntN(4) {
			input = mutate(rnd, input)
		}
		want := reference(l, string(input))
		if want.err != nil {
			refused++
		}
		if got := readAll(t, l, randomCuts(rnd, input)); !got.equals(want) {
			t.Fatalf("limits %+v, input %q: got %s, want %s", l, input, got, want)
		}
	}
	if refused < 2000 || refused > 18000 {
		t.Errorf("%d of 20000 inputs were rejected, want 2000 to 18000: the test needs rejected and accepted inputs", refused)
	}
}

// randomLimits usually returns wide limits, and sometimes limits narrow enough to be exceeded.
func randomLimits(rnd *rand.Rand) Limits {
	if rnd.IntN(3) > 0 {
		return authenticatedLimits
	}
	return Limits{
		Args:            1 + rnd.IntN(8),
		Bulk:            rnd.IntN(40),
		Inline:          rnd.IntN(40),
		Query:           rnd.IntN(120),
		Unauthenticated: rnd.IntN(2) == 0,
	}
}

// randomPipeline returns n well-formed requests.
func randomPipeline(rnd *rand.Rand, n int) []byte {
	var b []byte
	for range n {
		switch rnd.IntN(8) {
		case 0:
			b = append(b, []string{"\r\n", "\n", " \r\n", "*0\r\n", "*-1\r\n"}[rnd.IntN(5)]...)
		case 1, 2:
			b = appendRandomInline(b, rnd)
		default:
			count := 1 + rnd.IntN(6)
			b = fmt.Appendf(b, "*%d\r\n", count)
			for range count {
				arg := randomBytes(rnd, 40000)
				b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(arg), arg)
			}
		}
	}
	return b
}

func appendRandomInline(b []byte, rnd *rand.Rand) []byte {
	for range rnd.IntN(5) {
		switch rnd.IntN(4) {
		case 0:
			b = append(append(b, "bare"...), quoteHex(randomBytes(rnd, 1000))...)
		case 1:
			b = append(b, quoteHex(randomBytes(rnd, 1000))...)
		case 2:
			b = append(b, `'it\'s'`...)
		default:
			b = append(b, "word"...)
		}
		b = append(b, " \t\v"[rnd.IntN(3)])
	}
	return append(b, []string{"\n", "\r\n"}[rnd.IntN(2)]...)
}

// randomBytes usually returns fewer than 12 bytes, and in 1 of 100 calls any number of bytes below the given maximum.
func randomBytes(rnd *rand.Rand, most int) []byte {
	n := rnd.IntN(12)
	if rnd.IntN(100) == 0 {
		n = rnd.IntN(most)
	}
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

// quoteHex encodes any bytes as a word of an inline request.
func quoteHex(b []byte) []byte {
	text := []byte{'"'}
	for _, c := range b {
		text = fmt.Appendf(text, `\x%02x`, c)
	}
	return append(text, '"')
}

// mutate changes, drops, adds or repeats a few bytes of b, and returns the result.
func mutate(rnd *rand.Rand, b []byte) []byte {
	if len(b) == 0 {
		return b
	}
	const telling = "*$\r\n0123456789-+\"'\\x :\x00\v\xff"
	at, c := rnd.IntN(len(b)), telling[rnd.IntN(len(telling))]
	to := at + min(rnd.IntN(8), len(b)-at)
	switch rnd.IntN(4) {
	case 0:
		b[at] = c
		return b
	case 1:
		return slices.Delete(b, at, to)
	case 2:
		return slices.Insert(b, at, c)
	default:
		return slices.Insert(b, at, slices.Clone(b[at:to])...)
	}
}
