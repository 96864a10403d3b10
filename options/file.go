package options

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/throttledhq/throttled/resp"
)

// Errors of a line. They do not contain the line, which may hold a secret.
var (
	errQuotes  = errors.New("unbalanced quotes")
	errComment = errors.New("a comment must be on a line of its own: move the text after #")
)

// line is one line of a configuration file.
type line struct {
	raw   string // without the trailing line feed
	name  string // empty if the line is blank, a comment or has unbalanced quotes
	words int    // number of values
	value string // the values, separated by single spaces
	err   error  // not nil if the line is invalid
}

// parseLines splits a file into its lines. Text after the last line feed is a line
// unless it is empty.
func parseLines(data []byte) []line {
	var out []line
	for raw := range strings.Lines(string(data)) {
		out = append(out, parseLine(strings.TrimSuffix(raw, "\n")))
	}
	return out
}

// parseLine parses `name value [value ...]`. A value may be quoted as in redis.conf.
func parseLine(raw string) line {
	l := line{raw: raw}
	if strings.HasPrefix(strings.TrimLeft(raw, " \t"), "#") {
		return l
	}
	words, err := resp.SplitLine(nil, []byte(raw))
	if err != nil {
		l.err = errQuotes
		return l
	}
	if len(words) == 0 {
		return l
	}
	values := make([]string, 0, len(words)-1)
	for _, w := range words[1:] {
		values = append(values, string(w))
	}
	l.name, l.words, l.value = string(words[0]), len(values), strings.Join(values, " ")
	// No option has several values of which one begins with this character.
	if len(values) > 1 && slices.ContainsFunc(values, func(v string) bool { return strings.HasPrefix(v, "#") }) {
		l.err = errComment
	}
	return l
}

// quote returns s as one word of a configuration file: unchanged if it is not empty and
// needs no quotes, otherwise in double quotes.
func quote(s string) string {
	if s != "" && strings.IndexFunc(s, func(c rune) bool { return !isPlain(c) }) < 0 {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// isPlain reports whether c needs no quotes: whether it is printable ASCII other than a
// space, a quote, a backslash or the comment character.
func isPlain(c rune) bool {
	return '!' <= c && c <= '~' && !strings.ContainsRune("\"'\\#", c)
}
