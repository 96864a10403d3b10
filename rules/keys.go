package rules

import (
	"fmt"
	"strings"

	"github.com/throttledhq/throttled/internal/nearest"
	"go.yaml.in/yaml/v3"
)

// key is a key of a map in a rules file, which sets a part of T.
type key[T any] struct {
	name     string
	doc      string  // for readers of the reference document
	value    *schema // the values of the key
	example  string  // a value, in the syntax of YAML
	required bool
	decode   func(d *decoder, v value, into *T) // nil if the key is not supported yet
}

// keys is the table of all keys of a map. Decoding and errors follow from it.
type keys[T any] []key[T]

// decode sets the parts of T whose keys are in the map v. It reports whether v is a map.
func (ks keys[T]) decode(d *decoder, v value, into *T) bool {
	if !d.isMap(v, ks) {
		return false
	}
	for e := range v.entries() {
		if !d.refused[e.key.Node] {
			ks.decodeEntry(d, e, into)
		}
	}
	for _, k := range ks {
		if _, ok := v.find(k.name); k.required && !ok {
			d.failMissing(v, k.name, k.doc)
		}
	}
	return true
}

// decodeEntry decodes the value of one key.
func (ks keys[T]) decodeEntry(d *decoder, e entry, into *T) {
	for _, k := range ks {
		switch {
		case k.name != e.key.Value:
		case k.decode == nil:
			d.fail(e.key.at(e.value), fmt.Sprintf("%q is not supported yet", k.name), "remove it")
			return
		default:
			k.decode(d, e.value, into)
			return
		}
	}
	d.fail(e.key.at(e.value), fmt.Sprintf("unknown key %q", clip(e.key.Value)),
		suggest(e.key.Value, ks.names()))
}

// names returns the names of the keys that are supported.
func (ks keys[T]) names() []string {
	var names []string
	for _, k := range ks {
		if k.decode != nil {
			names = append(names, k.name)
		}
	}
	return names
}

// String returns the names of the keys, for the remedy of an error.
func (ks keys[T]) String() string { return "the keys " + strings.Join(ks.names(), ", ") }

// example is the content of a map whose keys are chosen by the author of the file.
type example string

// String returns the example.
func (e example) String() string { return string(e) }

// isMap reports whether v is a map with at least one entry. If it is not, the error names the content of the map.
func (r *report) isMap(v value, content fmt.Stringer) bool {
	switch {
	case v.Kind != yaml.MappingNode:
		r.fail(v, "the value must be a map", "write "+content.String())
	case len(v.Content) == 0:
		r.fail(v, "the map is empty", "write "+content.String())
	}
	return !r.refused[v.Node]
}

// find returns the value of a key.
func (v value) find(name string) (found value, ok bool) {
	for i := 0; v.Kind == yaml.MappingNode && i+1 < len(v.Content); i += 2 {
		if v.Content[i].Value == name {
			return value{v.Content[i+1], place{parent: v.path(), kind: atKey, key: name}}, true
		}
	}
	return value{}, false
}

// failMissing adds the error that a required key is missing in the map v. The place is that of the map.
func (r *report) failMissing(v value, name, doc string) {
	e := r.src.errorAt(v.Line, v.Column, fmt.Sprintf("the key %q is missing", clip(name)), fmt.Sprintf("add %s: %s", clip(name), doc))
	e.Path = joinPath(v.path(), name)
	r.errs = append(r.errs, e)
}

// suggest returns a remedy for a wrong word: the most similar choice, or all choices if none is similar.
func suggest(word string, choices []string) string {
	if near := nearest.Word(word, choices); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "write one of: " + strings.Join(choices, ", ")
}
