package rules

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/throttledhq/throttled/internal/yamltext"
)

// documents parses the YAML text and returns the root node of each document.
func (src *source) documents() ([]*yaml.Node, error) {
	list, err := yamltext.Documents(strings.Join(src.lines, "\n"))
	for i, document := range list {
		list[i] = document.Content[0]
	}
	return list, err
}

// syntaxError converts an error of the YAML library.
func (src *source) syntaxError(err error) Error {
	line, message := splitYAMLError(err)
	if name, ok := unknownAnchor(message); ok {
		line = src.find("*" + name)
	} else {
		line = src.firstFailure(max(line, 1), message)
		if strings.Contains(message, "mapping values") && src.lacksColon(line-1) {
			line, message = line-1, "could not find expected ':'"
		}
	}
	line = src.lineOfCause(line)
	column, suggestion := remedy(src.from(line, 1), message)
	return src.errorAt(line, column, "not valid YAML: "+clip(message), suggestion)
}

var yamlError = regexp.MustCompile(`(?s)^yaml: (?:line (\d+): )?(.*)$`)

// splitYAMLError returns the parts of an error of the YAML library. The line is 0 if the error has none.
func splitYAMLError(err error) (line int, message string) {
	parts := yamlError.FindStringSubmatch(err.Error())
	if parts == nil {
		return 0, err.Error()
	}
	line, _ = strconv.Atoi(parts[1])
	return line, parts[2]
}

// unknownAnchor returns the name in an error about an alias without an anchor.
func unknownAnchor(message string) (name string, ok bool) {
	_, name, ok = strings.Cut(message, "unknown anchor '")
	return strings.TrimSuffix(name, "' referenced"), ok
}

// find returns the first line that contains text, or 1.
func (src *source) find(text string) int {
	for i, line := range src.lines {
		if strings.Contains(line, text) {
			return i + 1
		}
	}
	return 1
}

// firstFailure returns the number of the line that causes an error of the YAML library. The library reports a line
// at or before the cause: usually the line before the start of the enclosing map. The cause is the first line at which
// the file can be cut without a change of the message.
func (src *source) firstFailure(from int, message string) int {
	fails := func(n int) bool {
		_, err := yamltext.Documents(strings.Join(src.lines[:n], "\n"))
		if err == nil {
			return false
		}
		_, m := splitYAMLError(err)
		return m == message
	}
	low, high := from-1, from
	for step := 1; high < len(src.lines) && !fails(high); step *= 2 {
		low, high = high, min(high+step, len(src.lines))
	}
	for high-low > 1 {
		if middle := (low + high) / 2; fails(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return min(high, len(src.lines))
}

// lacksColon reports whether a line has only a text, as after a key whose colon is missing. YAML continues the text on
// the next line, and reports the colon of that line.
func (src *source) lacksColon(line int) bool {
	text := strings.TrimSpace(src.from(line, 1))
	return text != "" && !strings.ContainsAny(text, ":#")
}

// lineOfCause returns the first line with a known cause in the brackets that are open at the end of a line. It returns
// the line itself if there is none.
func (src *source) lineOfCause(line int) int {
	open := 0
	for n := line; n <= len(src.lines); n++ {
		text := src.lines[n-1]
		if column, _ := findCause(text); column > 0 {
			return n
		}
		open += strings.Count(text, "[") + strings.Count(text, "{") - strings.Count(text, "]") - strings.Count(text, "}")
		if open <= 0 {
			break
		}
	}
	return line
}

// causes lists text that YAML does not read as text without quotes. The part in parentheses is the position of the
// error.
var causes = []struct {
	pattern    *regexp.Regexp
	suggestion string
}{
	{regexp.MustCompile("(?:^|[:,\\[{-])\\s*([*&!%@`|>])"), "put text that begins with one of * & ! % @ ` | > in quotes"},
	{regexp.MustCompile(`[\[{,:]\s*([^\s,\[\]{}"']+[{?])`), "put text with {, } or ? in quotes"},
	{regexp.MustCompile(`[\s,\[{](::)`), "put text that begins with a colon in quotes"},
	{regexp.MustCompile(`[:,\[{-]\s*("[^"]*"|'[^']*')\s*[^\s,:\]}#]`), "put the whole text in quotes"},
	{regexp.MustCompile(`[\[{,]\s*[^\s:,{}\[\]"']+: [^\s,{}\[\]"']+(: )`), "put text with a colon and a space in quotes"},
	{regexp.MustCompile(`^[^#{\[]*?: [^#{\[]*?(: )`), "put text with a colon and a space in quotes, and indent all keys of a map alike"},
}

// remedy returns the column and the remedy of an error in a line.
func remedy(line, message string) (column int, suggestion string) {
	switch {
	case strings.Contains(message, "end of stream"):
		return columnOf(line, strings.IndexAny(line, `"'`)), "close the quotes"
	case strings.Contains(message, "escape character"):
		return columnOf(line, strings.Index(line, `\`)), `in double quotes, write \\ for a backslash`
	}
	if column, suggestion := findCause(line); column > 0 {
		return column, suggestion
	}
	indent := len(line) - len(strings.TrimLeft(line, " "))
	switch {
	case strings.Contains(message, "',' or"):
		return columnOf(line, strings.LastIndexAny(line, "[{")), "close the bracket on the same line, and put text with brackets in quotes"
	case strings.Contains(message, "expected ':'"):
		return columnOf(line, indent), `write "key: value"`
	}
	return columnOf(line, indent), "indent all keys of a map by the same number of spaces"
}

// findCause returns the column and the remedy of the first of the causes in a line. The column is 0 if there is none.
func findCause(line string) (column int, suggestion string) {
	for _, cause := range causes {
		if at := cause.pattern.FindStringSubmatchIndex(line); at != nil {
			return columnOf(line, at[2]), cause.suggestion
		}
	}
	return 0, ""
}

// columnOf converts the index of a byte to a column. A negative index is the start of the line.
func columnOf(line string, index int) int {
	return utf8.RuneCountInString(line[:max(index, 0)]) + 1
}
