package attributes

import (
	"bytes"
	"fmt"
	"strings"
)

// NormalizePath returns the normal spelling of the path in a request target:
//
//   - scheme and authority of an absolute URI, the query and the fragment are removed
//   - percent-encodings are decoded once
//   - a backslash is replaced by a slash
//   - the parameters of a segment, which follow a semicolon, are removed
//   - empty segments and the segments "." and ".." are resolved, never above the root
//   - a slash at the end is removed
//
// The result begins with a slash. Percent signs in it are literal: "/%2541" is "/%41", as for a server that decodes a path
// once. The case of letters is kept. A server that does not treat encoded slashes and backslashes as slashes may use another
// path.
//
// The error wraps ErrRequest. It reports a percent sign without two hexadecimal digits, a NUL byte, or a path of more than
// MaxPath bytes. A path that is normal already is returned without an allocation.
func NormalizePath(raw string) (string, error) {
	path := pathOf(raw)
	if len(path) > MaxPath {
		return "", fmt.Errorf("%w: the path has %d bytes; at most %d are allowed", ErrRequest, len(path), MaxPath)
	}
	if isNormal(path) {
		return path, nil
	}
	var memory [256]byte
	decoded, err := decodePath(append(memory[:0], '/'), path)
	if err != nil {
		return "", err
	}
	return string(resolve(decoded)), nil
}

// pathOf returns the part of a request target that is the path.
func pathOf(target string) string {
	if target != "" && target[0] != '/' {
		target = withoutAuthority(target)
	}
	if end := strings.IndexAny(target, "?#"); end >= 0 {
		return target[:end]
	}
	return target
}

// withoutAuthority removes the scheme and the authority of an absolute URI.
func withoutAuthority(target string) string {
	scheme := 0
	for scheme < len(target) && isSchemeByte(target[scheme]) {
		scheme++
	}
	rest, found := strings.CutPrefix(target[scheme:], "://")
	if scheme == 0 || !found {
		return target
	}
	if start := strings.IndexAny(rest, `/\?#`); start >= 0 {
		return rest[start:]
	}
	return ""
}

func isSchemeByte(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'
}

// isNormal reports whether NormalizePath does not change the path.
func isNormal(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	start := 1 // of the current segment
	for i := 1; i < len(path); i++ {
		switch path[i] {
		case '%', ';', '\\', 0:
			return false
		case '/':
			if isDots(path[start:i]) {
				return false
			}
			start = i + 1
		}
	}
	return len(path) == 1 || !isDots(path[start:])
}

// isDots reports whether a segment is empty, "." or "..".
func isDots(segment string) bool {
	return segment == "" || segment == "." || segment == ".."
}

// decodePath appends a path to dst with its percent-encodings decoded, and its backslashes replaced.
func decodePath(dst []byte, path string) ([]byte, error) {
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c == '%' {
			if i+2 >= len(path) || !isHex(path[i+1]) || !isHex(path[i+2]) {
				return nil, fmt.Errorf("%w: the path has the invalid escape %q; encode a percent sign as %%25", ErrRequest, path[i:min(i+3, len(path))])
			}
			c = unhex(path[i+1])<<4 | unhex(path[i+2])
			i += 2
		}
		switch c {
		case 0:
			return nil, fmt.Errorf("%w: the path has a NUL byte", ErrRequest)
		case '\\':
			c = '/'
		}
		dst = append(dst, c)
	}
	return dst, nil
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

// unhex returns the value of a hexadecimal digit.
func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}

// resolve removes parameters, empty segments and dot segments of a decoded path, which must begin with a slash. It reuses
// the memory of the path: the result never has more bytes than the part of the path that was read.
func resolve(path []byte) []byte {
	out := path[:0]
	for len(path) > 0 {
		segment, rest, _ := bytes.Cut(path, []byte{'/'})
		path = rest
		segment, _, _ = bytes.Cut(segment, []byte{';'})
		switch {
		case len(segment) == 0, string(segment) == ".":
		case string(segment) == "..":
			out = out[:max(bytes.LastIndexByte(out, '/'), 0)]
		default:
			out = append(append(out, '/'), segment...)
		}
	}
	if len(out) == 0 {
		return append(out, '/')
	}
	return out
}
