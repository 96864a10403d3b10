package attributes

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// token is the decoded payload of a JSON Web Token. Its signature is not verified: the gateway has done this.
type token struct {
	text   string // of which the payload was decoded
	claims map[string]json.RawMessage
}

// The reasons why the value of a header is no token. They continue a sentence about the header.
var (
	errParts   = errors.New(`has no token; a token has the form "a.b.c", or is the payload only`)
	errEncoded = errors.New("has a token that is not base64url")
	errJSON    = errors.New("has a token whose payload is not a JSON object")
)

// decode decodes the payload of a token "a.b.c", with an optional prefix "Bearer ", or a payload alone. It does nothing if
// the text is that of the previous call.
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
	var claims map[string]json.RawMessage
	if err := json.Unmarshal(payload, &claims); err != nil || claims == nil {
		return errJSON
	}
	t.text, t.claims = text, claims
	return nil
}

// payloadOf returns the encoded payload of a token.
func payloadOf(text string) (string, error) {
	const bearer = "Bearer "
	if len(text) > len(bearer) && strings.EqualFold(text[:len(bearer)], bearer) {
		text = trimSpace(text[len(bearer):])
	}
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

// find returns the value at a path of names with dots between them, or nil. A member whose name is the whole path takes
// precedence.
func find(object map[string]json.RawMessage, path string) json.RawMessage {
	if value, ok := object[path]; ok {
		return value
	}
	name, rest, nested := strings.Cut(path, ".")
	if !nested || len(object[name]) == 0 || object[name][0] != '{' {
		return nil
	}
	var inner map[string]json.RawMessage
	if json.Unmarshal(object[name], &inner) != nil {
		return nil
	}
	return find(inner, rest)
}
