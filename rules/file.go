package rules

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// File is the content of a rules file.
type File struct {
	Domains []Domain // at least one, with distinct names
}

// Domain is one YAML document: limits for the requests of one domain.
type Domain struct {
	Name       string
	Semantics  Semantics
	Attributes []Attribute
	Tiers      Tiers
	Default    *Default // nil: a request that matches no limit is admitted
	Limits     []Limit  // in the order of the file
}

// Domain returns the domain with the given name, or nil.
func (f *File) Domain(name string) *Domain {
	for i := range f.Domains {
		if f.Domains[i].Name == name {
			return &f.Domains[i]
		}
	}
	return nil
}

// Names returns the names of the domains.
func (f *File) Names() []string {
	names := make([]string, len(f.Domains))
	for i := range f.Domains {
		names[i] = f.Domains[i].Name
	}
	return names
}

// Attribute defines how the value of an attribute is derived. It has either FirstOf or IPv6Prefix.
type Attribute struct {
	Name       string
	FirstOf    []string // the value is that of the first of these attributes that the request has
	IPv6Prefix int      // an IPv6 address is replaced by its network of this prefix length
}

// Tiers determines the tier of a request. The zero Tiers has no tiers.
type Tiers struct {
	By      string // attribute with the name of the tier
	Default string // tier of requests without the attribute, or with another value
}

// Default is the limit for requests that match no live limit.
type Default struct {
	Allow Allow
	Per   []string // as in Limit
}

// Parse parses the text of a rules file: one YAML document for each domain. The name of the file is used for errors
// only. Time zones are loaded by loader, usually time.LoadLocation.
//
// The error is of type Errors. It lists all problems that were found, but not more than 20.
func Parse(name string, text []byte, loader ZoneLoader) (*File, error) {
	src, errs := newSource(name, text)
	if len(errs) > 0 {
		return nil, errs
	}
	roots, err := src.documents()
	if err != nil {
		return nil, Errors{src.syntaxError(err)}
	}
	if len(roots) == 0 {
		return nil, Errors{src.errorAt(1, 1, "the file has no document", "write version, domain and limits")}
	}
	d := &decoder{report: &report{src: src, refused: map[*yaml.Node]bool{}}, loadZone: loader}
	file := d.file(roots)
	if len(d.errs) > 0 {
		return nil, d.errs.sorted()
	}
	return file, nil
}

// file decodes all documents.
func (d *decoder) file(roots []*yaml.Node) *File {
	file := &File{}
	lines := map[string]int{} // of the domain names
	for _, root := range roots {
		v := value{root, place{}}
		treeCheck{d.report}.checkTree(v, 1)
		domain := d.domain(v)
		file.Domains = append(file.Domains, domain)
		name, ok := v.find("domain")
		if line := lines[domain.Name]; ok && line > 0 {
			d.fail(name, fmt.Sprintf("%q is the domain of another document, in line %d", domain.Name, line),
				"merge the documents, or rename the domain")
		}
		if ok && domain.Name != "" {
			lines[domain.Name] = name.Line
		}
	}
	return file
}
