package edge

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
)

// decode decodes the body of a request, a JSON object with known members, into v.
func decode(w http.ResponseWriter, r *http.Request, v any) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return refuse(http.StatusUnsupportedMediaType, "unsupported_media_type", "the Content-Type must be application/json")
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return decodeError(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return invalid("the body must be one JSON object; remove the text after it")
	}
	return nil
}

// decodeError returns the error for the client if the body cannot be decoded.
func decodeError(err error) error {
	var large *http.MaxBytesError
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &large):
		return refuse(http.StatusRequestEntityTooLarge, "body_too_large", "the body must have at most %d bytes", maxBody)
	case errors.As(err, &kind):
		return invalid("%s must be %s, not %s", memberName(kind.Field), typeName(kind), kind.Value)
	case errors.As(err, &syntax):
		return invalid("the body is not valid JSON: %v at byte %d", err, syntax.Offset)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return invalid("the body is not complete; it must be a JSON object")
	}
	if name, found := strings.CutPrefix(err.Error(), "json: unknown field "); found {
		return invalid("%s is not a member of the request; remove it or correct its name", name)
	}
	return invalid("the body cannot be read: %v", err)
}

func memberName(field string) string {
	if field == "" {
		return "the body"
	}
	return field
}

// typeName returns the JSON type that a member must have.
func typeName(e *json.UnmarshalTypeError) string {
	switch kind := e.Type.Kind().String(); {
	case strings.HasPrefix(kind, "int"):
		return "an integer of 64 bits"
	case kind == "map", kind == "struct":
		return "an object"
	case kind == "slice":
		return "an array"
	case kind == "bool":
		return "true or false"
	default:
		return fmt.Sprintf("a %s", kind)
	}
}
