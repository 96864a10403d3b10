package rules

// templateTree finds the templates that match a path. The cost depends on the number of templates that match the
// beginning of the path.
type templateTree struct {
	nodes []templateNode // the root is the first
	edges map[templateEdge]uint32
}

// templateNode is a node of a templateTree: templates that begin with the same segments.
type templateNode struct {
	variable uint32 // the child for any segment; 0 if there is none
	end      target // of the template that ends here
	open     target // of the template that ends here with "*"
}

// templateEdge leads from a node to its child for a literal segment.
type templateEdge struct {
	node    uint32
	segment string
}

func newTemplateTree(list []keyedTarget) *templateTree {
	t := &templateTree{nodes: []templateNode{{end: noTarget, open: noTarget}}, edges: map[templateEdge]uint32{}}
	for _, one := range list {
		segments, open := splitTemplate(one.text)
		node := uint32(0)
		for _, segment := range segments {
			node = t.child(node, segment)
		}
		if open {
			t.nodes[node].open = one.target
		} else {
			t.nodes[node].end = one.target
		}
	}
	return t
}

// child returns the child of a node for a segment, and adds it if it is missing.
func (t *templateTree) child(node uint32, segment string) uint32 {
	edge := templateEdge{node, segment}
	child := t.edges[edge]
	if segment == anySegment {
		child = t.nodes[node].variable
	}
	if child > 0 {
		return child
	}
	child = uint32(len(t.nodes))
	t.nodes = append(t.nodes, templateNode{end: noTarget, open: noTarget})
	if segment == anySegment {
		t.nodes[node].variable = child
	} else {
		t.edges[edge] = child
	}
	return child
}

// addTemplates appends the elements whose key is a template, from a node on. more reports whether the path has more
// segments, the first of which may be empty.
func (x *index) addTemplates(r *request, t *templateTree, node uint32, path []byte, more bool) {
	n := &t.nodes[node]
	if !more {
		x.add(r, n.end)
		return
	}
	x.add(r, n.open)
	segment, rest, more := cutSegment(path)
	if child, ok := t.edges[templateEdge{node, string(segment)}]; ok {
		x.addTemplates(r, t, child, rest, more)
	}
	if n.variable > 0 && len(segment) > 0 {
		x.addTemplates(r, t, n.variable, rest, more)
	}
}
