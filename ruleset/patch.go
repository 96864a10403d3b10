package ruleset

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/throttledhq/throttled/internal/yamltext"
	"github.com/throttledhq/throttled/rules"
)

// Merge applies a patch to the text of a rules file, and returns the new text. It does not check whether the result is a
// valid rules file.
//
// The patch is YAML, or JSON, with one document for each domain that it changes. A document without a domain changes the
// only domain of the file. A document with an unknown domain is added. A patch cannot remove a domain. Documents are merged
// as in RFC 7396: maps are merged, null removes a key, and each other value replaces the value in the file. A list is
// replaced as a whole. For example, this patch changes one limit and removes another:
//
//	domain: shop
//	limits:
//	  login: {allow: 8 per 15m}
//	  search: null
//
// Comments in the file are kept, except those within a value that is removed or replaced. A value that the patch repeats
// stays as it is.
func Merge(text, patch string) (string, error) {
	file, changes, err := readBoth(text, patch)
	if err != nil {
		return "", err
	}
	if file, err = mergeAll(file, changes); err != nil {
		return "", err
	}
	return encode(file)
}

// readBoth returns the documents of a rules file and of a patch.
func readBoth(text, patch string) (file, changes []*yaml.Node, err error) {
	if file, err = documents(text); err != nil {
		return nil, nil, fmt.Errorf("read the rules: %w", err)
	}
	changes, err = documents(patch)
	switch {
	case errors.Is(err, errDepth):
		return nil, nil, fmt.Errorf("read the patch: %w", err)
	case err != nil:
		return nil, nil, syntaxError(patch, err)
	case len(changes) == 0:
		return nil, nil, errors.New("the patch is empty; write a document with the keys to change")
	}
	return file, changes, nil
}

// syntaxError returns the error for a patch that is not YAML. A rules file with the text of the patch has the same error,
// with a place and a remedy.
func syntaxError(patch string, err error) error {
	if _, located := rules.Parse(nameOfPatch, []byte(patch), time.LoadLocation); located != nil {
		return located
	}
	return fmt.Errorf("read the patch: %w", err)
}

// mergeAll merges the documents of a patch with those of a rules file, and returns the result.
func mergeAll(file, changes []*yaml.Node) ([]*yaml.Node, error) {
	m := newMerger(file)
	for _, change := range changes {
		if err := checkPatch(change.Content[0]); err != nil {
			return nil, err
		}
		if err := m.merge(change); err != nil {
			return nil, err
		}
	}
	return m.file, nil
}

// documents parses YAML, and limits its depth.
func documents(text string) ([]*yaml.Node, error) {
	list, err := yamltext.Documents(text)
	for _, document := range list {
		if isDeeper(document, maxDepth) {
			return nil, errDepth
		}
	}
	return list, err
}

// maxDepth is the maximum number of nested nodes in a document, which is more than any valid rules file needs. The YAML
// library takes a time that grows with the square of the depth to write some documents.
const maxDepth = 200

var errDepth = fmt.Errorf("the text has more than %d nested values", maxDepth)

// isDeeper reports whether a node has more than the given number of nested nodes.
func isDeeper(n *yaml.Node, depth int) bool {
	if depth < 0 {
		return true
	}
	return slices.ContainsFunc(n.Content, func(child *yaml.Node) bool { return isDeeper(child, depth-1) })
}

// patchError returns an error about a place in the patch.
func patchError(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf(nameOfPatch+":%d:%d: "+format, append([]any{n.Line, n.Column}, args...)...)
}

// checkPatch refuses YAML that is easily misunderstood. The result of the merge is checked as a rules file, but keys that
// remove others, and keys that are replaced, do not appear in it.
func checkPatch(n *yaml.Node) error {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return patchError(n, "aliases and anchors are not supported; write the value in each place")
	case n.Style&yaml.TaggedStyle != 0:
		return patchError(n, "tags are not supported; put a text that begins with ! in quotes")
	case isNull(n) && n.Value == "":
		return patchError(n, "the value is missing; write null to remove a key")
	}
	keys := map[string]bool{}
	for i, child := range n.Content {
		if err := checkPatch(child); err != nil {
			return err
		}
		if n.Kind != yaml.MappingNode || i%2 == 1 {
			continue
		}
		if child.Kind != yaml.ScalarNode || keys[child.Value] {
			return patchError(child, "the key %q is repeated or is not a text; write each key once", clip(child.Value, 40))
		}
		if child.Tag == "!!merge" {
			return patchError(child, `"<<" is a merge key, and merge keys are not supported; write the keys`)
		}
		keys[child.Value] = true
	}
	return nil
}

// merger merges the documents of a patch with those of a file.
type merger struct {
	file     []*yaml.Node
	byDomain map[string]int // positions in file; of several documents with one domain, the first
}

func newMerger(file []*yaml.Node) *merger {
	m := &merger{byDomain: map[string]int{}}
	for _, document := range file {
		m.add(document)
	}
	return m
}

// add adds a document to the file.
func (m *merger) add(document *yaml.Node) {
	if name := valueOf(document.Content[0], "domain"); name != nil {
		if _, known := m.byDomain[name.Value]; !known {
			m.byDomain[name.Value] = len(m.file)
		}
	}
	m.file = append(m.file, document)
}

// merge merges a document of a patch with the document of the file that has the same domain.
func (m *merger) merge(change *yaml.Node) error {
	root := change.Content[0]
	if root.Kind != yaml.MappingNode {
		return patchError(root, "a patch is a map; write keys such as limits")
	}
	domain := valueOf(root, "domain")
	if domain != nil && isNull(domain) {
		return patchError(domain, "domain: a patch cannot remove a domain; write the name of a domain, or replace the whole text with CL.RULES SET")
	}
	at, known := 0, domain == nil && len(m.file) == 1
	if domain != nil {
		at, known = m.byDomain[domain.Value]
	}
	switch {
	case known:
		m.file[at].Content[0] = merge(m.file[at].Content[0], root)
		return nil
	case domain == nil:
		names := slices.Sorted(maps.Keys(m.byDomain))
		return patchError(root, "the domain is missing; write domain and one of %s", clip(strings.Join(names, ", "), maxSummary))
	}
	change.Content[0] = merge(&yaml.Node{}, root)
	m.add(change)
	return nil
}

// valueOf returns the value of a key, or nil.
func valueOf(n *yaml.Node, key string) *yaml.Node {
	if i := indexOf(n, key); i >= 0 {
		return n.Content[i+1]
	}
	return nil
}

// indexOf returns the position of a key in the content of a map, or -1.
func indexOf(n *yaml.Node, key string) int {
	if n.Kind != yaml.MappingNode {
		return -1
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return i
		}
	}
	return -1
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// merge returns the value that replaces target. It changes target if both are maps.
func merge(target, patch *yaml.Node) *yaml.Node {
	if patch.Kind != yaml.MappingNode {
		if isUnchanged(target, patch) {
			return target // a JSON patch would add quotes
		}
		keepComments(target, patch)
		return patch
	}
	if target.Kind != yaml.MappingNode {
		empty := &yaml.Node{Kind: yaml.MappingNode, Style: patch.Style, Line: patch.Line, Column: patch.Column}
		keepComments(target, empty)
		target = empty
	}
	if len(target.Content) == 0 {
		target.Style = patch.Style
	}
	mergeKeys(target, patch)
	return target
}

// isUnchanged reports whether a value of a patch has the content of the value in the file, without comments and tags.
func isUnchanged(target, patch *yaml.Node) bool {
	return target.Kind == patch.Kind && target.Value == patch.Value && isNull(target) == isNull(patch) &&
		patch.Style&yaml.TaggedStyle == 0 && patch.HeadComment+patch.LineComment+patch.FootComment == "" &&
		slices.EqualFunc(target.Content, patch.Content, isUnchanged)
}

// mergeKeys merges the keys of two maps, in linear time: a patch may have as many keys as the file.
func mergeKeys(target, patch *yaml.Node) {
	positions := make(map[string]int, len(target.Content)/2)
	for i := len(target.Content) - 2; i >= 0; i -= 2 { // of repeated keys, the first
		positions[target.Content[i].Value] = i
	}
	removed := false
	for i := 0; i+1 < len(patch.Content); i += 2 {
		key, value := patch.Content[i], patch.Content[i+1]
		at, known := positions[key.Value]
		switch {
		case isNull(value) && known:
			target.Content[at], target.Content[at+1], removed = nil, nil, true
		case isNull(value):
		case known:
			target.Content[at+1] = merge(target.Content[at+1], value)
		default:
			appendKey(target, key, value)
		}
	}
	if removed {
		target.Content = slices.DeleteFunc(target.Content, func(n *yaml.Node) bool { return n == nil })
	}
}

// appendKey adds a key of a patch to a map that does not have it.
func appendKey(target, key, value *yaml.Node) {
	if target.Style&yaml.FlowStyle == 0 {
		key.Style = 0 // the key of a JSON patch needs no quotes
	}
	target.Content = append(target.Content, key, merge(&yaml.Node{}, value))
}

// keepComments copies the comments of a replaced value, unless the new value has its own.
func keepComments(from, to *yaml.Node) {
	if to.HeadComment == "" && to.LineComment == "" && to.FootComment == "" {
		to.HeadComment, to.LineComment, to.FootComment = from.HeadComment, from.LineComment, from.FootComment
	}
}

// errEncode is returned if the YAML library writes a text with another meaning.
var errEncode = errors.New("the patched rules cannot be written as YAML; use CL.RULES SET with the whole text")

// encode writes documents as text, and checks that the text has the same content.
func encode(list []*yaml.Node) (text string, err error) {
	defer func() {
		if r := recover(); r != nil {
			text, err = "", fmt.Errorf("%w: %v", errEncode, r)
		}
	}()
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	for _, document := range list {
		if err := encoder.Encode(document); err != nil {
			return "", fmt.Errorf("%w: %w", errEncode, err)
		}
	}
	if err := encoder.Close(); err != nil {
		return "", fmt.Errorf("%w: %w", errEncode, err)
	}
	written, err := documents(b.String())
	if err != nil {
		return "", fmt.Errorf("%w: %w", errEncode, err)
	}
	if !isEqualList(list, written) {
		return "", errEncode
	}
	return b.String(), nil
}

// isEqual reports whether two nodes have the same content. Style and comments do not count.
func isEqual(a, b *yaml.Node) bool {
	return a.Kind == b.Kind && a.Value == b.Value && isEqualList(a.Content, b.Content)
}

func isEqualList(a, b []*yaml.Node) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !isEqual(a[i], b[i]) {
			return false
		}
	}
	return true
}
