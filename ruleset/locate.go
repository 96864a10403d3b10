package ruleset

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/throttledhq/throttled/rules"
)

// nameOfPatch is the name of a patch in errors.
const nameOfPatch = "patch"

// place is a line and a column. After a merge, the lines of nodes that come from the patch are negative.
type place struct{ line, column int }

// locate replaces the places of the errors of a patched text, which the client does not have, by places in the patch or in
// the text before it. If a place has no origin, the error quotes the line.
func locate(err error, text, patch string) error {
	var list rules.Errors
	if !errors.As(err, &list) {
		return err
	}
	patched, origins, failed := originsOf(text, patch)
	if failed != nil {
		return err
	}
	lines := strings.Split(patched, "\n")
	list = slices.Clone(list)
	for i := range list {
		e := &list[i]
		switch from, ok := origins[place{e.Line, e.Column}]; {
		case ok && from.line < 0:
			e.File, e.Line, e.Column = nameOfPatch, -from.line, from.column
		case ok:
			e.File, e.Line, e.Column = nameOfText, from.line, from.column
		case e.Line <= len(lines):
			e.Reason += fmt.Sprintf(" (in the line %q)", clip(strings.TrimSpace(lines[e.Line-1]), maxSummary))
		}
	}
	return list
}

// originsOf applies a patch that is valid. It returns the result, and the origin of each place with a node.
func originsOf(text, patch string) (patched string, origins map[place]place, err error) {
	file, changes, err := readBoth(text, patch)
	if err != nil {
		return "", nil, err
	}
	for _, change := range changes {
		negateLines(change)
	}
	if file, err = mergeAll(file, changes); err != nil {
		return "", nil, err
	}
	if patched, err = encode(file); err != nil {
		return "", nil, err
	}
	written, err := documents(patched)
	origins = map[place]place{}
	for i := range written {
		addOrigins(origins, file[i], written[i])
	}
	return patched, origins, err
}

func negateLines(n *yaml.Node) {
	n.Line = -n.Line
	for _, child := range n.Content {
		negateLines(child)
	}
}

// addOrigins adds the places of the nodes in a merged document, by the places of the same nodes in the text that has been
// written.
func addOrigins(origins map[place]place, merged, written *yaml.Node) {
	origins[place{written.Line, written.Column}] = place{merged.Line, merged.Column}
	for i := range written.Content {
		addOrigins(origins, merged.Content[i], written.Content[i])
	}
}
