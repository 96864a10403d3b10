package edge

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/throttledhq/throttled/edge/decision"
	"github.com/throttledhq/throttled/edge/headers"
)

// problemError is an error that is sent to the client.
type problemError struct {
	status  int
	word    string // for programs
	message string
	retry   int64             // seconds; 0 if no wait helps
	header  map[string]string // further headers
}

func (e *problemError) Error() string { return e.message }

// errInternal is the error for a request whose handler has panicked.
var errInternal = errors.New("internal error")

func invalid(format string, args ...any) error {
	return &problemError{status: http.StatusBadRequest, word: "invalid_request", message: fmt.Sprintf(format, args...)}
}

func refuse(status int, word, format string, args ...any) error {
	return &problemError{status: status, word: word, message: fmt.Sprintf(format, args...)}
}

// decided returns the error for a request whose commands have failed, or nil. Invalid commands are errors of the client,
// unless the client is a gateway, which cannot send any.
func decided(err error, result *decision.Result) error {
	var e *decision.Error
	switch {
	case err != nil:
		return unavailable("the request was not decided: an internal error is in the log")
	case result.Err == nil:
		return nil
	case errors.As(result.Err, &e) && !e.Unavailable():
		return invalid("%s", e.Message)
	}
	return unavailable(result.Err.Error())
}

func unavailable(message string) error {
	return &problemError{status: http.StatusServiceUnavailable, word: "unavailable", message: message, retry: 1}
}

// writeError writes an error as a problem.
func writeError(w http.ResponseWriter, err error) {
	p := headers.Problem{Type: headers.TypeBlank, Status: http.StatusInternalServerError, Error: "internal", Message: "internal error; see the log"}
	var e *problemError
	if errors.As(err, &e) {
		p.Status, p.Error, p.Message, p.Retry = e.status, e.word, e.message, e.retry
		for name, value := range e.header {
			w.Header().Set(name, value)
		}
	}
	p.Title = http.StatusText(p.Status)
	if p.Status == http.StatusServiceUnavailable {
		p = headers.Unavailable(p.Message)
	}
	if p.Retry > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(p.Retry, 10))
	}
	w.Header().Set("Cache-Control", "no-store")
	writeBody(w, p.Status, headers.ContentType, p.Append(nil))
}

// writeBody writes a response with a body.
func writeBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h["Content-Type"] = []string{contentType}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client is gone if this fails
}
