package rules

// templateTree finds the templates that match a path. The cost depends on the number of templates that match the
// beginning of the path.
type templateTree struct {
	nodes []templateNode // the root is the first: the text before the first slash, which is empty
}

// templateNode is a node of a templateTree: templates that begin with the same segments.
type templateNode struct {
	end      target            // of the template that ends here
	open     target            // of the template that ends here with "*"
	variable uint32            // the child for any segment; 0 if there is none
	few      []templateChild   // the children for literal segments, if there are few
	many     map[string]uint32 // all of them, if there are many
}

// templateChild is a child for a literal segment.
type templateChild struct {
	segment string
	node    uint32
}

func newTemplateTree(list []keyedTarget) *templateTree {
	t := &templateTree{nodes: []templateNode{{end: noTarget, open: noTarget}}}
	for _, one := range list {
		segments, open := splitTemplate(one.text)
		node := uint32(0)
		for _, segment := range segments[1:] {
			node = t.makeChild(node, segment)
		}
		if open {
			t.nodes[node].open = one.target
		} else {
			t.nodes[node].end = one.target
		}
	}
	return t
}

// makeChild returns the child of a node for a segment of a template, and adds it if it is missing.
func (t *templateTree) makeChild(at uint32, segment string) uint32 {
	n := &t.nodes[at]
	child, ok := n.variable, n.variable > 0
	if segment != anySegment {
		child, ok = n.child([]byte(segment))
	}
	if ok {
		return child
	}
	child = uint32(len(t.nodes))
	n.addChild(segment, child)
	t.nodes = append(t.nodes, templateNode{end: noTarget, open: noTarget})
	return child
}

// addChild adds a child for a segment of a template.
func (n *templateNode) addChild(segment string, child uint32) {
	switch {
	case segment == anySegment:
		n.variable = child
	case n.many != nil:
		n.many[segment] = child
	case len(n.few) < few:
		n.few = append(n.few, templateChild{segment, child})
	default:
		n.many = map[string]uint32{segment: child}
		for _, c := range n.few {
			n.many[c.segment] = c.node
		}
	}
}

// child returns the child for a literal segment.
func (n *templateNode) child(segment []byte) (node uint32, ok bool) {
	if n.many != nil {
		node, ok = n.many[string(segment)]
		return node, ok
	}
	for i := range n.few {
		if c := &n.few[i]; string(segment) == c.segment {
			return c.node, true
		}
	}
	return 0, false
}

// addTemplates appends the elements whose key is a template that matches path.
func (x *index) addTemplates(r *request, t *templateTree, path []byte) {
	if path[0] == '/' {
		x.addTemplatesFrom(r, t, 0, path[1:], true)
	}
}

// addTemplatesFrom appends the elements of the templates from a node on. more reports whether the path has more
// segments, the first of which may be empty.
func (x *index) addTemplatesFrom(r *request, t *templateTree, at uint32, path []byte, more bool) {
	n := &t.nodes[at]
	if !more {
		x.add(r, n.end)
		return
	}
	x.add(r, n.open)
	segment, rest, more := cutSegment(path)
	if child, ok := n.child(segment); ok {
		x.addTemplatesFrom(r, t, child, rest, more)
	}
	if n.variable > 0 && len(segment) > 0 {
		x.addTemplatesFrom(r, t, n.variable, rest, more)
	}
}
