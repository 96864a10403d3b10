package options

import (
	"errors"
	"fmt"
	"strings"

	"github.com/throttledhq/throttled/resp"
)

var errQuotes = errors.New("unbalanced quotes")

// line is one line of a configuration file.
type line struct {
	raw   string // without the line feed that ends it
	name  string // empty if the line is blank, a comment or broken
	words int    // number of values
	value string // the values, a space between each two
	err   error  // why the line is broken
}

// parseLines splits a file into its lines. What follows the last line feed is a line
// only if there is anything.
func parseLines(data []byte) []line {
	var out []line
	for raw := range strings.Lines(string(data)) {
		out = append(out, parseLine(strings.TrimSuffix(raw, "\n")))
	}
	return out
}

// parseLine reads `name value [value ...]`, where a value may be quoted as in redis.conf.
func parseLine(raw string) line {
	l := line{raw: raw}
	if strings.HasPrefix(strings.TrimLeft(raw, " \t"), "#") {
		return l
	}
	words, err := resp.SplitLine(nil, []byte(raw))
	if err != nil {
		l.err = errQuotes // the line itself may hold a secret, so it is not repeated
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
	return l
}

// quote returns s as it can stand in a configuration file: as it is if it is one word
// of harmless bytes, else in double quotes.
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

// isPlain reports whether c needs no quotes: it is printable ASCII and neither a space,
// a quote, a backslash nor the sign of a comment.
func isPlain(c rune) bool {
	return '!' <= c && c <= '~' && !strings.ContainsRune("\"'\\#", c)
}
