package rules

// attributeID is the position of an attribute in an attributeTable.
type attributeID = uint32

// attributeTable numbers the attributes that a domain uses.
//
// An attribute of requests and an attribute that is derived by first_of are different attributes, even if they have the
// same name: conditions use the derived one, and the list of first_of has attributes of requests.
type attributeTable struct {
	ids     map[string]attributeID // attributes of requests
	list    []attributeInfo        // by attributeID
	derives bool                   // whether any attribute is derived
}

// attributeInfo describes an attribute.
type attributeInfo struct {
	name       string
	ipv6Prefix int           // see Attribute.IPv6Prefix; 0 if it is not set
	firstOf    []attributeID // of a derived attribute: the attributes of requests that it is derived from
	derived    []attributeID // of an attribute of requests: the attributes that are derived from it
}

// isNamed reports whether the attribute is the attribute of requests with a name.
func (a *attributeInfo) isNamed(name []byte) bool {
	return a.name == string(name) && len(a.firstOf) == 0
}

// attributeCompiler assigns the numbers of an attributeTable.
type attributeCompiler struct {
	table       attributeTable
	definitions map[string]*Attribute
	derived     map[string]attributeID
}

func newAttributeCompiler(list []Attribute) *attributeCompiler {
	c := &attributeCompiler{
		table:       attributeTable{ids: map[string]attributeID{}},
		definitions: make(map[string]*Attribute, len(list)),
		derived:     map[string]attributeID{},
	}
	for i := range list {
		c.definitions[list[i].Name] = &list[i]
	}
	return c
}

// id returns the number of an attribute in a condition, a cost or a list "per".
func (c *attributeCompiler) id(name string) attributeID {
	a := c.definitions[name]
	if a == nil || len(a.FirstOf) == 0 {
		return c.requestID(name)
	}
	id, ok := c.derived[name]
	if !ok {
		id = c.add(attributeInfo{name: name})
		c.derived[name], c.table.derives = id, true
		for _, source := range a.FirstOf {
			c.derive(id, c.requestID(source))
		}
	}
	return id
}

// derive adds an attribute of requests to the list of a derived attribute.
func (c *attributeCompiler) derive(id, source attributeID) {
	c.table.list[id].firstOf = append(c.table.list[id].firstOf, source)
	c.table.list[source].derived = append(c.table.list[source].derived, id)
}

// requestID returns the number of an attribute of requests.
func (c *attributeCompiler) requestID(name string) attributeID {
	id, ok := c.table.ids[name]
	if !ok {
		id = c.add(attributeInfo{name: name})
		c.table.ids[name] = id
		if a := c.definitions[name]; a != nil {
			c.table.list[id].ipv6Prefix = a.IPv6Prefix
		}
	}
	return id
}

func (c *attributeCompiler) add(info attributeInfo) attributeID {
	c.table.list = append(c.table.list, info)
	return attributeID(len(c.table.list) - 1)
}
