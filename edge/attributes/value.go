package attributes

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// value returns the value of a source, or "" if it is absent. The argument last holds the token of the source before.
//
// Of a source that is not verified, the first of several values is used. Of a verified source, several values are an error:
// the gateway may have verified any of them.
func (s *source) value(lines []string, last *token) (string, error) {
	if s.kind == fromCookie {
		return s.cookie(lines)
	}
	switch {
	case len(lines) == 0:
		return "", nil
	case len(lines) > 1 && s.verified:
		return "", fmt.Errorf("%w: the header %s is repeated; configure the gateway to replace the header of the client", ErrGateway, s.header)
	}
	text := trimSpace(lines[0])
	if s.kind == fromHeader {
		return text, nil
	}
	if text = credentials(text); text == "" {
		return "", nil
	}
	if err := last.decode(text); err != nil {
		return "", fmt.Errorf("%w: the header %s %w", ErrRequest, s.header, err)
	}
	value, err := last.claim(s.part)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrGateway, err)
	}
	return value, nil
}

// cookie returns the value of a cookie, without the quotes that it may have.
func (s *source) cookie(lines []string) (string, error) {
	var value string
	found := 0
	for _, line := range lines {
		for rest, more := line, true; more; {
			var one string
			one, rest, more = strings.Cut(rest, ";")
			name, text, _ := strings.Cut(one, "=")
			if trimSpace(name) != s.part {
				continue
			}
			if found++; found == 1 {
				value = unquoted(trimSpace(text))
			}
		}
	}
	if found > 1 && s.verified {
		return "", fmt.Errorf("%w: the cookie %s is repeated", ErrRequest, s.part)
	}
	return value, nil
}

// unquoted removes the double quotes around a text.
func unquoted(text string) string {
	if len(text) >= 2 && text[0] == '"' && text[len(text)-1] == '"' {
		return text[1 : len(text)-1]
	}
	return text
}

// limit returns a value of at most MaxValue bytes. A longer value that is not verified is replaced by its hash, so that
// clients with different values have different counters. A longer value that is verified is an error, because conditions
// of the rules would not match its hash.
func (s *source) limit(value string) (string, error) {
	switch {
	case len(value) <= MaxValue:
		return value, nil
	case s.verified:
		return "", fmt.Errorf("%w: the value has %d bytes; at most %d are allowed", ErrRequest, len(value), MaxValue)
	}
	hash := sha256.Sum256([]byte(value))
	return "sha256:" + hex.EncodeToString(hash[:]), nil
}
