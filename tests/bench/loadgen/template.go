package loadgen

import (
	"bytes"
	"fmt"
)

// Placeholder is the part of a request that is replaced with the number of a key. All requests of a load thus have the
// same length.
const Placeholder = "########"

// Template is a request with a placeholder for its key.
type Template struct {
	text []byte
	at   int // start of the placeholder
}

// NewTemplate returns a template, in which the placeholder must occur exactly once.
func NewTemplate(text string) (Template, error) {
	t := Template{[]byte(text), bytes.Index([]byte(text), []byte(Placeholder))}
	if n := bytes.Count(t.text, []byte(Placeholder)); n != 1 {
		return t, fmt.Errorf("template %q contains %s %d times, want once", text, Placeholder, n)
	}
	return t, nil
}

// append appends the request for a key. Keys with the same last eight digits are the same key.
func (t Template) append(out []byte, key uint64) []byte {
	start := len(out) + t.at
	out = append(out, t.text...)
	for i := start + len(Placeholder) - 1; i >= start; i-- {
		out[i] = byte('0' + key%10)
		key /= 10
	}
	return out
}
