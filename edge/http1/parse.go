package http1

import (
	"math"
	"strings"
)

// message is a parsed request. Its strings are parts of the text that was parsed.
type message struct {
	method, target, host string
	fields               []field // without Host
	length               int     // Content-Length; -1 if there is none
	body                 string
}

type field struct{ name, value string }

// verdict is the result of parse.
type verdict uint8

const (
	complete   verdict = iota
	incomplete         // more bytes are required
	foreign            // for the http.Server
)

const (
	maxFields = 64
	maxMethod = 16
	lineEnd   = "\r\n"
	headEnd   = "\r\n\r\n"
)

// parse parses the request at the start of text, and returns its size.
func (m *message) parse(text string) (size int, v verdict) {
	end := strings.Index(text, headEnd)
	if end < 0 {
		return 0, m.parsePart(text)
	}
	line, rest, _ := strings.Cut(text[:end+len(lineEnd)], lineEnd)
	if !m.parseLine(line) || !m.parseFields(rest) {
		return 0, foreign
	}
	start := end + len(headEnd)
	size = start + max(m.length, 0)
	if size > inputSize {
		return 0, foreign
	}
	if size > len(text) {
		return 0, incomplete
	}
	m.body = text[start:size]
	return size, complete
}

// parsePart returns foreign if no further bytes can make text the start of a request that parse accepts. The client then
// need not wait for the answer of net/http.
func (m *message) parsePart(text string) verdict {
	if text != "" && classes[text[0]]&isUpper == 0 {
		return foreign
	}
	if line, _, found := strings.Cut(text, lineEnd); found && !m.parseLine(line) {
		return foreign
	}
	for rest := text; ; {
		before, after, found := strings.Cut(rest, "\n")
		if !found {
			return incomplete
		}
		if !strings.HasSuffix(before, "\r") {
			return foreign
		}
		rest = after
	}
}

// parseLine parses a request line. The methods HEAD, CONNECT and OPTIONS have rules of their own, and are foreign.
func (m *message) parseLine(line string) bool {
	method, rest, _ := strings.Cut(line, " ")
	target, ok := strings.CutSuffix(rest, " HTTP/1.1")
	if !ok || method == "" || len(method) > maxMethod || !consists(method, isUpper) {
		return false
	}
	if method == "HEAD" || method == "CONNECT" || method == "OPTIONS" || target == "" || target[0] != '/' || !consists(target, isVisible) {
		return false
	}
	m.method, m.target = method, target
	return true
}

// parseFields parses complete lines.
func (m *message) parseFields(lines string) bool {
	m.fields, m.host, m.length = m.fields[:0], "", -1
	for lines != "" {
		line, rest, _ := strings.Cut(lines, lineEnd)
		lines = rest
		name, value, ok := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		if !ok || name == "" || !consists(name, isToken) || !consists(value, isValue) || len(m.fields) == maxFields {
			return false
		}
		switch regular, host := m.note(name, value); {
		case !regular:
			return false
		case !host:
			m.fields = append(m.fields, field{name, value})
		}
	}
	return m.host != ""
}

// note notes the fields that determine how a request is read. It reports whether a field is regular, and whether it is
// Host.
func (m *message) note(name, value string) (regular, host bool) {
	switch len(name) {
	case len("Host"):
		if strings.EqualFold(name, "Host") {
			regular = m.host == "" && value != "" && consists(value, isHost)
			m.host = value
			return regular, true
		}
	case len("Content-Length"):
		if strings.EqualFold(name, "Content-Length") {
			return m.noteLength(value), false
		}
	case len("Connection"):
		return !strings.EqualFold(name, "Connection") || strings.EqualFold(value, "keep-alive"), false
	case len("Expect"):
		return !strings.EqualFold(name, "Expect"), false
	case len("Upgrade"):
		return !strings.EqualFold(name, "Upgrade") && !strings.EqualFold(name, "Trailer"), false
	case len("Transfer-Encoding"):
		return !strings.EqualFold(name, "Transfer-Encoding"), false
	}
	return true, false
}

func (m *message) noteLength(value string) bool {
	if m.length >= 0 || value == "" || len(value) > 6 || !consists(value, isDigit) {
		return false
	}
	m.length = 0
	for i := range len(value) {
		m.length = m.length*10 + int(value[i]-'0')
	}
	return true
}

// class is a set of classes of bytes.
type class uint8

const (
	isUpper class = 1 << iota
	isDigit
	isToken   // names of fields
	isVisible // targets: ASCII without spaces and controls
	isValue   // values of fields
	isHost
)

var classes = func() (table [math.MaxUint8 + 1]class) {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	for c := range table {
		in := func(set string) bool { return strings.IndexByte(set, byte(c)) >= 0 }
		for _, one := range []struct {
			class class
			holds bool
		}{
			{isUpper, in(strings.ToUpper(letters))},
			{isDigit, in("0123456789")},
			{isToken, in(letters + strings.ToUpper(letters) + "0123456789!#$%&'*+-.^_`|~")},
			{isVisible, c > ' ' && c < 0x7F},
			{isValue, c >= ' ' && c != 0x7F || c == '\t'},
			{isHost, in(letters + strings.ToUpper(letters) + "0123456789-._:[]")},
		} {
			if one.holds {
				table[c] |= one.class
			}
		}
	}
	return table
}()

// consists reports whether all bytes of a text belong to a class.
func consists(text string, c class) bool {
	for i := range len(text) {
		if classes[text[i]]&c == 0 {
			return false
		}
	}
	return true
}
