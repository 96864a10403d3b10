package edge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/throttledhq/throttled/internal/nearest"
)

// decode reads and decodes the body of a request. If it returns false, it has sent the error.
func (s *Server) decode(x *exchange, fields []field) bool {
	if !isJSON(x.r.Header) {
		x.fail(http.StatusUnsupportedMediaType, "media_type", "send the header Content-Type: application/json, and no Content-Encoding")
		return false
	}
	if !x.readBody() {
		return false
	}
	x.body.reset(s.domain)
	if err := decodeBody(x.in, fields, &x.body); err != nil {
		x.fail(http.StatusBadRequest, "invalid_request", err.Error())
		return false
	}
	return true
}

// isJSON reports whether the body is JSON that is not compressed.
func isJSON(h http.Header) bool {
	types := h["Content-Type"]
	if len(types) != 1 || len(h["Content-Encoding"]) > 0 {
		return false
	}
	kind, _, _ := strings.Cut(types[0], ";")
	return kind == "application/json" || strings.EqualFold(strings.TrimSpace(kind), "application/json")
}

// readBody reads the body into x.in. If it returns false, it has sent the error.
func (x *exchange) readBody() bool {
	if x.r.ContentLength > maxBody {
		x.tooLarge()
		return false
	}
	x.in = x.in[:0]
	for {
		if len(x.in) == cap(x.in) {
			x.in = slices.Grow(x.in, max(512, cap(x.in)))
		}
		n, err := x.r.Body.Read(x.in[len(x.in):min(cap(x.in), maxBody+1)])
		x.in = x.in[:len(x.in)+n]
		switch {
		case len(x.in) > maxBody:
			x.tooLarge()
			return false
		case err == io.EOF:
			return true
		case err != nil:
			x.incomplete(err)
			return false
		}
	}
}

func (x *exchange) tooLarge() {
	x.close()
	x.fail(http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf("the body has more than %d bytes", maxBody))
}

// incomplete reports that the body cannot be read.
func (x *exchange) incomplete(err error) {
	x.close()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		x.fail(http.StatusRequestTimeout, "timeout", fmt.Sprintf("the request was not complete after %v", readTimeout))
		return
	}
	x.fail(http.StatusBadRequest, "incomplete", "the body is incomplete or malformed")
}

// fieldError is an error of one field of a body.
type fieldError struct {
	field  string // with the fields that contain it, such as "checks[1].cost"
	reason string
}

func (e *fieldError) Error() string { return `field "` + e.field + `" ` + e.reason }

// decodeBody decodes a body that must be a JSON object.
func decodeBody(data []byte, fields []field, b *body) error {
	if !utf8.Valid(data) {
		return errors.New("the body is not valid UTF-8")
	}
	var raw json.RawMessage // the value; decoding checks the syntax of all nested values
	if !json.Valid(data) {
		return fmt.Errorf("the body is not valid JSON: %w", json.Unmarshal(data, &raw))
	}
	return decodeObject(trim(data), "", fields, b)
}

// decodeObject decodes a JSON value that must be an object with the given fields. The prefix is that of the names of its
// fields in errors.
func decodeObject(data []byte, prefix string, fields []field, b *body) error {
	var seen uint64
	err := eachMember(data, func(name string, value []byte) error {
		at := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		switch {
		case at < 0:
			return &fieldError{prefix + name, "is unknown" + suggest(name, fields)}
		case seen&(1<<at) != 0:
			return &fieldError{prefix + name, "is given twice"}
		}
		seen |= 1 << at
		return within(fields[at].value(b).decode(value), prefix+name)
	})
	if err != nil {
		return err
	}
	for i := range fields {
		if fields[i].required && seen&(1<<i) == 0 {
			return &fieldError{prefix + fields[i].name, "is missing"}
		}
	}
	return nil
}

// within adds the name of the field to an error of its value.
func within(err error, name string) error {
	var inner *fieldError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &inner):
		return &fieldError{name + inner.field, inner.reason}
	}
	return &fieldError{name, err.Error()}
}

func suggest(name string, fields []field) string {
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].name
	}
	if near := nearest.Word(name, names); near != "" {
		return `; did you mean "` + near + `"?`
	}
	return "; the fields are " + strings.Join(names, ", ")
}

// The functions below divide JSON that json.Valid has accepted. They make no copies.

var errNotObject = errors.New("must be an object")

// eachMember calls visit for the members of an object.
func eachMember(data []byte, visit func(name string, value []byte) error) error {
	if data[0] != '{' {
		return errNotObject
	}
	return eachItem(data, func(item []byte) error {
		end := stringEnd(item)
		name, err := textOf(item[:end])
		if err != nil {
			return err
		}
		value := trim(item[end:])
		return visit(name, trim(value[1:])) // without the colon
	})
}

// eachItem calls visit for the parts of an object or an array: its members or elements.
func eachItem(data []byte, visit func(item []byte) error) error {
	rest := trim(data[1 : len(data)-1])
	for len(rest) > 0 {
		end := itemEnd(rest)
		if err := visit(trim(rest[:end])); err != nil {
			return err
		}
		rest = trim(bytes.TrimPrefix(rest[end:], []byte{','}))
	}
	return nil
}

// itemEnd returns the position of the comma after the first part, or the length of data.
func itemEnd(data []byte) int {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			i += stringEnd(data[i:]) - 1
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
	return len(data)
}

// stringEnd returns the length of the string with which data begins.
func stringEnd(data []byte) int {
	for i := 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}

func trim(data []byte) []byte { return bytes.Trim(data, " \t\r\n") }

var errNotString = errors.New("must be a string")

// textOf returns the value of a JSON string.
func textOf(data []byte) (string, error) {
	if data[0] != '"' {
		return "", errNotString
	}
	if bytes.IndexByte(data, '\\') < 0 {
		return string(data[1 : len(data)-1]), nil
	}
	var text string
	err := json.Unmarshal(data, &text)
	return text, err
}
