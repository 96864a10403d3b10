package rules

// KeyTable lists the keys of one map of a rules file, for reference documents.
type KeyTable struct {
	Map  string // the map that has the keys, such as "limit"
	Keys []Key
}

// Key describes a key that Parse accepts.
type Key struct {
	Name     string
	Value    string // the kind of its values, such as "percentage"
	Doc      string // its meaning, and the default
	Example  string // a value, in the syntax of YAML
	Required bool
}

// Reference returns the tables of all keys of rules files and test files.
func Reference() []KeyTable {
	return []KeyTable{
		{"document", domainKeys.reference()},
		{"attributes.NAME", attributeKeys.reference()},
		{"tiers", tierKeys.reference()},
		{"default", defaultKeys.reference()},
		{"limits.NAME", limitKeys.reference()},
		{"charge", chargeKeys.reference()},
		{"ban", banKeys.reference()},
		{"priority", priorityKeys.reference()},
		{"overrides", overrideKeys.reference()},
		{"during", duringKeys.reference()},
		{"envoy", envoyKeys.reference()},
		{"matcher", matcherKeys().reference()},
		{"test file", testKeys.reference()},
		{"step", stepKeys.reference()},
		{"expect", expectKeys.reference()},
	}
}

// reference returns the description of each key that is supported.
func (ks keys[T]) reference() []Key {
	var list []Key
	for _, k := range ks {
		if k.decode != nil {
			list = append(list, Key{k.name, k.value.Title, k.doc, k.example, k.required})
		}
	}
	return list
}

// IsName reports whether a text can be the name of a domain, a limit, an attribute or a tier: it has 1 to 64 letters
// (A to Z), digits, "-", "_" or ".".
func IsName(text string) bool { return isName(text) }
