package rules

import (
	"slices"
	"strings"
)

// prefixTree finds the texts of a set that are prefixes of a value. It is a radix tree: the cost depends on the length
// of the value, and on the number of branches on its path.
type prefixTree struct {
	nodes   []prefixNode // the root is the first
	longest int          // length of the longest text
}

// prefixNode is a node of a prefixTree.
type prefixNode struct {
	label    string // text on the edge to this node
	target   target // of the text that ends at this node, or noTarget
	children uint32 // position of the first child
	bytes    string // first byte of the label of each child, ascending
}

// keyedTarget is the text of a key, and the elements that have this key.
type keyedTarget struct {
	text   string
	target target
}

// newPrefixTree returns a tree of distinct texts. It sorts the list.
func newPrefixTree(list []keyedTarget) *prefixTree {
	slices.SortFunc(list, func(a, b keyedTarget) int { return strings.Compare(a.text, b.text) })
	t := &prefixTree{nodes: make([]prefixNode, 1, len(list)+len(list)/2+1)}
	t.build(0, list, 0)
	for _, one := range list {
		t.longest = max(t.longest, len(one.text))
	}
	return t
}

// build sets a node with an empty label. The texts of list have the path of the node, of the given length, in common.
func (t *prefixTree) build(node int, list []keyedTarget, length int) {
	n := prefixNode{label: t.nodes[node].label, target: noTarget}
	if len(list) > 0 && len(list[0].text) == length {
		n.target, list = list[0].target, list[1:]
	}
	branches := splitByByte(list, length)
	n.children = uint32(len(t.nodes))
	firsts := make([]byte, len(branches))
	for i, branch := range branches {
		firsts[i] = branch[0].text[length]
		t.nodes = append(t.nodes, prefixNode{label: branch[0].text[length : length+commonLength(branch, length)]})
	}
	n.bytes = string(firsts)
	t.nodes[node] = n
	for i, branch := range branches {
		t.build(int(n.children)+i, branch, length+len(t.nodes[int(n.children)+i].label))
	}
}

// splitByByte splits a sorted list into parts with the same byte at a position.
func splitByByte(list []keyedTarget, at int) [][]keyedTarget {
	var parts [][]keyedTarget
	for len(list) > 0 {
		first := list[0].text[at]
		n := 1
		for n < len(list) && list[n].text[at] == first {
			n++
		}
		parts, list = append(parts, list[:n]), list[n:]
	}
	return parts
}

// commonLength returns the number of bytes after a position that all texts of a sorted list have in common.
func commonLength(list []keyedTarget, at int) int {
	a, b := list[0].text[at:], list[len(list)-1].text[at:]
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// addPrefixes appends the elements whose key is a prefix of text.
func (x *index) addPrefixes(r *request, t *prefixTree, text []byte) {
	node := &t.nodes[0]
	for {
		x.add(r, node.target)
		if len(text) == 0 {
			return
		}
		child := strings.IndexByte(node.bytes, text[0])
		if child < 0 {
			return
		}
		node = &t.nodes[int(node.children)+child]
		if !hasPrefix(text, node.label) {
			return
		}
		text = text[len(node.label):]
	}
}
