package attributes

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// token is the decoded payload of a JSON Web Token. Its signature is not verified: the gateway has done this.
type token struct {
	text   string // of which the payload was decoded
	claims []byte // a valid JSON object
}

// The reasons why the value of a header is no token. They continue a sentence about the header.
var (
	errParts   = errors.New(`has no token; a token has the form "a.b.c", or is the payload only`)
	errEncoded = errors.New("has a token that is not base64url")
	errJSON    = errors.New("has a token whose payload is not a JSON object")
)

// decode decodes the payload of a token "a.b.c", or a payload alone. It does nothing if the text is that of the previous
// call.
func (t *token) decode(text string) error {
	if t.claims != nil && t.text == text {
		return nil
	}
	encoded, err := payloadOf(text)
	if err != nil {
		return err
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(encoded, "="))
	if err != nil {
		return errEncoded
	}
	if claims := bytes.TrimLeft(payload, jsonSpace); len(claims) == 0 || claims[0] != '{' || !json.Valid(claims) {
		return errJSON
	}
	t.text, t.claims = text, payload
	return nil
}

// credentials removes the scheme from the value of a header such as Authorization. The result is "" if the scheme is not
// Bearer.
func credentials(text string) string {
	scheme, rest, found := strings.Cut(text, " ")
	switch {
	case !found:
		return text
	case strings.EqualFold(scheme, "Bearer"):
		return trimSpace(rest)
	}
	return ""
}

// payloadOf returns the encoded payload of a token.
func payloadOf(text string) (string, error) {
	_, rest, dots := strings.Cut(text, ".")
	if !dots {
		rest = text
	}
	payload, signature, signed := strings.Cut(rest, ".")
	if payload == "" || dots != signed || strings.Contains(signature, ".") {
		return "", errParts
	}
	return payload, nil
}

// claim returns the value of a claim, or "" if it is absent or null.
func (t *token) claim(path string) (string, error) {
	raw := find(t.claims, path)
	switch {
	case raw == nil, raw[0] == 'n':
		return "", nil
	case raw[0] == '"':
		var text string
		err := json.Unmarshal(raw, &text)
		return text, err
	case raw[0] == '{', raw[0] == '[':
		return "", fmt.Errorf("the claim %s is an object or a list; declare a claim that is a string, a number or a boolean", clip(path))
	}
	return string(raw), nil
}

// find returns the value at a path of names with dots between them in a valid JSON value, or nil. A member whose name is
// the whole path takes precedence. Of several members with the same name, the last one is used, as in package encoding/json.
func find(value []byte, path string) []byte {
	value = bytes.TrimLeft(value, jsonSpace)
	if len(value) == 0 || value[0] != '{' {
		return nil
	}
	name, rest, nested := strings.Cut(path, ".")
	var whole, outer []byte
	for text := value[1:]; ; {
		text = bytes.TrimLeft(text, jsonSpace+",")
		if text[0] == '}' {
			break
		}
		key, after := cutValue(text)
		var member []byte
		member, text = cutValue(bytes.TrimLeft(after, jsonSpace+":"))
		switch {
		case isString(key, path):
			whole = member
		case nested && isString(key, name):
			outer = member
		}
	}
	if whole == nil && nested {
		return find(outer, rest)
	}
	return whole
}

// jsonSpace is the white space of JSON.
const jsonSpace = " \t\r\n"

// cutValue splits a text after the JSON value at its start.
func cutValue(text []byte) (value, rest []byte) {
	depth := 0
	for i := 0; ; i++ {
		switch text[i] {
		case '"':
			i = endOfString(text, i)
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		default:
			if depth == 0 && isEndOfWord(text[i+1:]) {
				return text[:i+1], text[i+1:]
			}
			continue
		}
		if depth == 0 {
			return text[:i+1], text[i+1:]
		}
	}
}

// endOfString returns the position of the quote that ends the string which begins at a position.
func endOfString(text []byte, at int) int {
	for at++; text[at] != '"'; at++ {
		if text[at] == '\\' {
			at++
		}
	}
	return at
}

// isEndOfWord reports whether a text after a part of a number, of true, false or null, is not another part of it.
func isEndOfWord(text []byte) bool {
	return len(text) == 0 || strings.IndexByte(jsonSpace+",:}]", text[0]) >= 0
}

// isString reports whether a JSON string has a content.
func isString(quoted []byte, content string) bool {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner) == content
	}
	var text string
	return json.Unmarshal(quoted, &text) == nil && text == content
}
