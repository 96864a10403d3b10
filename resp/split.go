package resp

import "math"

// SplitLine appends the words of line to dst, as Redis splits inline requests and the lines of redis.conf. Words are
// separated by white space. Within double quotes, the escapes \n \r \t \b \a \xHH are decoded, and a backslash before
// any other byte is removed. Within single quotes, \' is the only escape. A closing quote must be followed by white
// space or the end of the line. The words are unquoted in place, so line is overwritten and the words point into it.
//
// It returns ErrQuotes if a quote is not closed, or if a closing quote is followed by any other byte.
func SplitLine(dst [][]byte, line []byte) ([][]byte, error) {
	return splitLine(dst, line, math.MaxInt)
}

// splitLine is like SplitLine, but returns ErrManyInline if dst would contain more words than the limit. It stops at
// the first word beyond the limit, so that a line of many words does not allocate much memory.
func splitLine(dst [][]byte, line []byte, limit int) ([][]byte, error) {
	i := 0
	for {
		for i < len(line) && isSpace(line[i]) {
			i++
		}
		if i == len(line) {
			return dst, nil
		}
		if len(dst) >= limit {
			return dst, ErrManyInline
		}
		word, next, err := splitWord(line, i)
		if err != nil {
			return dst, err
		}
		dst = append(dst, word)
		i = next
	}
}

// splitWord unquotes the word that begins at line[start], and returns the word and the index after it. A word can be
// unquoted in place, because its quoted form is never shorter.
func splitWord(line []byte, start int) (word []byte, next int, err error) {
	out, i := start, start
	for i < len(line) && !endsWord(line[i]) {
		if c := line[i]; c == '"' || c == '\'' {
			out, i, err = unquote(line, out, i)
			if err != nil {
				return nil, 0, err
			}
			break
		}
		line[out] = line[i]
		out++
		i++
	}
	return line[start:out:out], i, nil
}

// unquote decodes the quoted text that begins with the quote line[i], and writes the result to line[out:]. outEnd is
// the index after the result, and next is the index after the closing quote. If there is no closing quote, or if it
// does not end the word, unquote returns ErrQuotes.
func unquote(line []byte, out, i int) (outEnd, next int, err error) {
	quote := line[i]
	i++
	for i < len(line) {
		c := line[i]
		switch {
		case c == quote:
			i++
			if i < len(line) && !isSpace(line[i]) {
				return 0, 0, ErrQuotes
			}
			return out, i, nil
		case c == '\\' && quote == '"' && i+1 < len(line):
			c, i = escape(line, i+1)
		case c == '\\' && quote == '\'' && i+1 < len(line) && line[i+1] == '\'':
			c, i = '\'', i+2
		default:
			i++
		}
		line[out] = c
		out++
	}
	return 0, 0, ErrQuotes
}

// escape decodes the escape sequence after the backslash line[i-1], and returns its byte and the index after the
// sequence.
func escape(line []byte, i int) (c byte, next int) {
	switch line[i] {
	case 'n':
		return '\n', i + 1
	case 'r':
		return '\r', i + 1
	case 't':
		return '\t', i + 1
	case 'b':
		return '\b', i + 1
	case 'a':
		return '\a', i + 1
	case 'x':
		if i+2 < len(line) {
			hi, lo := hexDigit(line[i+1]), hexDigit(line[i+2])
			if hi >= 0 && lo >= 0 {
				return byte(hi<<4 | lo), i + 3
			}
		}
	}
	return line[i], i + 1
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// endsWord reports whether c ends an unquoted word. The vertical tab and the form feed do not end a word, as in Redis:
// they are white space before a word and after a quote, but within a word they are a part of the word.
func endsWord(c byte) bool {
	return c == ' ' || c == '\t' || c == '\r' || c == '\n'
}

func isSpace(c byte) bool {
	return c == ' ' || c >= '\t' && c <= '\r'
}
