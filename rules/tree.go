package rules

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxDepth is the maximum number of maps and lists inside each other.
const maxDepth = 16

// treeCheck checks the nodes of a document before they are decoded.
type treeCheck struct{ *report }

// checkTree refuses the features of YAML that change the meaning of a text, or that readers may misunderstand: aliases,
// merge keys, tags, text over several lines, missing values, repeated keys. The decoder skips the nodes that it marks.
func (c treeCheck) checkTree(v value, depth int) {
	switch {
	case depth > maxDepth && v.Kind != yaml.ScalarNode:
		c.fail(v, fmt.Sprintf("maps and lists are nested more than %d times", maxDepth), "")
	case v.Kind == yaml.AliasNode:
		c.fail(v, fmt.Sprintf(`"*%s" is an alias, and aliases are not allowed`, clip(v.Value)),
			"repeat the value, or put a text that begins with * in quotes")
	case v.Anchor != "":
		c.fail(v, fmt.Sprintf(`"&%s" is an anchor, and anchors are not allowed`, clip(v.Anchor)),
			"put a text that begins with & in quotes")
	case v.Style&yaml.TaggedStyle != 0, v.Style&^yaml.FlowStyle == 0 && strings.HasPrefix(c.src.from(v.Line, v.Column), "!"):
		c.fail(v, "tags are not allowed", "put a text that begins with ! in quotes")
	case v.Kind == yaml.MappingNode:
		c.checkEntries(v, depth)
	case v.Kind == yaml.SequenceNode:
		for _, item := range v.items() {
			c.checkTree(item, depth+1)
		}
	default:
		c.checkScalar(v)
	}
}

// checkEntries checks the keys and the values of a map.
func (c treeCheck) checkEntries(v value, depth int) {
	seen := make(map[string]int, len(v.Content)/2)
	for e := range v.entries() {
		c.checkTree(e.key, depth+1)
		line, repeated := seen[e.key.Value]
		switch {
		case c.refused[e.key.Node]:
		case e.key.Kind != yaml.ScalarNode:
			c.fail(e.key, "a key must be a text", quoteHint(e.key))
		case e.key.Tag == "!!merge":
			c.fail(e.key, `"<<" is a merge key, and merge keys are not allowed`, "repeat the keys")
		case repeated:
			c.fail(e.key, fmt.Sprintf("%q is repeated: its first value is in line %d", clip(e.key.Value), line),
				"remove one of them")
		case isMissing(e.value):
			c.fail(e.key.at(e.value), fmt.Sprintf("%q has no value", clip(e.key.Value)), missingHint(v))
		default:
			seen[e.key.Value] = e.key.Line
			c.checkTree(e.value, depth+1)
		}
	}
}

// isMissing reports whether a value was left out.
func isMissing(v value) bool {
	return v.Kind == yaml.ScalarNode && v.Value == "" && v.Tag == "!!null" && v.Anchor == "" && v.Style == 0
}

// missingHint returns the remedy for a key without a value in the map v.
func missingHint(v value) string {
	if v.Style&yaml.FlowStyle != 0 {
		return "put text that contains a comma, a bracket or a brace in quotes"
	}
	return "remove the key, or write a value"
}

// quoteHint returns the remedy for a map or list where a text is needed.
func quoteHint(v value) string {
	switch {
	case v.Kind == yaml.MappingNode && v.Style&yaml.FlowStyle != 0:
		return "put text with { or } in quotes"
	case v.Kind == yaml.SequenceNode && v.Style&yaml.FlowStyle != 0:
		return "put text with [ or ] in quotes"
	}
	return ""
}

// checkScalar refuses null, and text over several lines.
func (c treeCheck) checkScalar(v value) {
	switch {
	case v.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		c.fail(v, "text over several lines is not allowed", "write the text on one line")
	case v.Style != 0:
	case v.Tag == "!!null" && v.Value == "":
		c.fail(v, "the value is empty", "remove it, or write a value")
	case v.Tag == "!!null":
		c.fail(v, fmt.Sprintf("%q is YAML's empty value", v.Value), "put it in quotes if it is a text")
	case !strings.HasPrefix(c.src.from(v.Line, v.Column), v.Value):
		c.fail(v, "text over several lines is not allowed", "write the text on one line")
	}
}
