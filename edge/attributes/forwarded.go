package attributes

import (
	"net/netip"
	"strings"
)

// lastElement splits the list of a Forwarded header at its last comma that is not in a quoted string. more reports whether
// there is one.
//
// The list is read from the right, because a trusted proxy has appended its right end. A client cannot hide it by an
// unclosed quote in its own part.
func lastElement(list string) (rest, element string, more bool) {
	quoted := false
	for i := len(list) - 1; i >= 0; i-- {
		switch c := list[i]; {
		case c == '"' && !isEscaped(list[:i]):
			quoted = !quoted
		case c == ',' && !quoted:
			return list[:i], list[i+1:], true
		}
	}
	return "", list, false
}

// isEscaped reports whether the text ends in an odd number of backslashes.
func isEscaped(text string) bool {
	n := len(text) - len(strings.TrimRight(text, `\`))
	return n%2 == 1
}

// parseElement returns the address in the parameter "for" of an element. The result is not valid if there is none, if the
// element has several, or if it is malformed.
func parseElement(element string) netip.Addr {
	var node string
	found := false
	for rest, more := element, true; more; {
		var name, value string
		var ok bool
		name, value, rest, more, ok = nextParameter(rest)
		isFor := strings.EqualFold(name, "for")
		if !ok || isFor && found {
			return netip.Addr{}
		}
		if isFor {
			node, found = value, true
		}
	}
	return parseNode(node)
}

// nextParameter parses one parameter, such as for="[2001:db8::1]:80". more reports whether another one follows. Empty
// parameters, which RFC 7239 allows, have an empty name. The value of a quoted string is its content, which is not
// unescaped: no address has a backslash.
func nextParameter(text string) (name, value, rest string, more, ok bool) {
	text = trimSpace(text)
	end := strings.IndexAny(text, `=;"`)
	switch {
	case text == "":
		return "", "", "", false, true
	case end == 0 && text[0] == ';':
		return "", "", text[1:], true, true
	case end <= 0 || text[end] != '=':
		return "", "", "", false, false
	}
	name, text = text[:end], text[end+1:]
	if strings.HasPrefix(text, `"`) {
		value, text, ok = quotedString(text[1:])
	} else {
		end = strings.IndexByte(text+";", ';')
		value, text = text[:end], text[end:]
		ok = !strings.ContainsAny(value, `",`)
	}
	text = trimSpace(text)
	rest, more = strings.CutPrefix(text, ";")
	return name, value, rest, more, ok && (more || text == "")
}

// quotedString returns the content of a quoted string whose opening quote was removed, and the text after it.
func quotedString(text string) (content, rest string, ok bool) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return text[:i], text[i+1:], true
		}
	}
	return "", "", false
}
