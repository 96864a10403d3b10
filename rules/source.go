package rules

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// source is the text of a rules file.
type source struct {
	name  string
	lines []string // without line ends

	last cursor // the place of the last call of from
}

// cursor is a place in the text. It makes a sequence of calls of from take linear time.
type cursor struct {
	line, column int
	rest         string
}

// newSource splits text into lines. The error lists the characters that are refused everywhere, so that lines and
// columns have one meaning for the YAML library, for editors and for this package.
func newSource(name string, text []byte) (*source, Errors) {
	src := &source{name: name, lines: strings.Split(strings.TrimPrefix(string(text), "\uFEFF"), "\n")}
	var errs Errors
	for i, line := range src.lines {
		src.lines[i] = strings.TrimSuffix(line, "\r")
		if column, reason, suggestion := refusedCharacter(src.lines[i]); reason != "" {
			errs = append(errs, src.errorAt(i+1, column, reason, suggestion))
		}
	}
	return src, errs.sorted()
}

// errorAt returns an error without a path. The YAML library places the missing value of a last line without a line end
// on the line after it; this place is moved to the end of the file.
func (src *source) errorAt(line, column int, reason, suggestion string) Error {
	if last := len(src.lines); line > last {
		line, column = last, columnOf(src.lines[last-1], len(src.lines[last-1]))
	}
	return Error{File: src.name, Line: line, Column: column, Reason: reason, Suggestion: suggestion}
}

// from returns the rest of a line, starting at a column. Both are counted from 1.
func (src *source) from(line, column int) string {
	if line < 1 || line > len(src.lines) {
		return ""
	}
	at := src.last
	if at.line != line || at.column > column {
		at = cursor{line, 1, src.lines[line-1]}
	}
	for ; at.column < column; at.column++ {
		_, size := utf8.DecodeRuneInString(at.rest)
		at.rest = at.rest[size:]
	}
	src.last = at
	return at.rest
}

// refusedCharacter finds the first character of a line that is refused. The reason is empty if there is none.
func refusedCharacter(line string) (column int, reason, suggestion string) {
	comment := strings.HasPrefix(strings.TrimLeft(line, " \t"), "#")
	for i, r := range line {
		column++
		switch {
		case r == utf8.RuneError && !utf8.FullRuneInString(line[i:]), r == utf8.RuneError && line[i] != 0xEF:
			return column, fmt.Sprintf("byte %#02x is not valid UTF-8", line[i]), "save the file as UTF-8"
		case r == '\t' && !comment:
			return column, "tabs are not allowed", "use spaces"
		case r == '\r':
			return column, "a carriage return must be followed by a line feed", "save the file with line ends LF or CR LF"
		case isControl(r) && r != '\t':
			return column, fmt.Sprintf("character U+%04X is not allowed", r), "remove it"
		}
	}
	return 0, "", ""
}

// isControl reports whether r is a control character, a line separator of Unicode, or not a character. YAML either
// refuses these or starts a new line at them.
func isControl(r rune) bool {
	return r < ' ' || r >= 0x7F && r < 0xA0 || r == 0x2028 || r == 0x2029 || r == 0xFEFF || r&0xFFFE == 0xFFFE
}
