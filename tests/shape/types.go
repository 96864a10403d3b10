package main

import (
	"go/ast"
	"go/token"
)

const (
	maxFields  = 15
	maxMethods = 25
)

// typeKey identifies a type of a package. The field test separates the methods that tests add to a
// production type: they are not counted as methods of that type.
type typeKey struct {
	dir, pkg, name string
	test           bool
}

// key returns the key of a type for which f contains the declaration or a method.
func (f *file) key(name string) typeKey { return typeKey{f.dir, f.syntax.Name.Name, name, f.test} }

// largeTypes finds structs and interfaces with too many fields or methods.
func largeTypes(t *tree) (found []finding) {
	methods := t.methods()
	for _, f := range t.files {
		for _, spec := range f.types() {
			fields, own := sizes(spec)
			own += len(methods[f.key(spec.Name.Name)])
			if fields > maxFields || own > maxMethods {
				size := count(fields, "field") + ", " + count(own, "method")
				found = append(found, finding{name: f.qualify(spec.Name.Name), size: size, at: f.at(spec.Pos()), test: f.test})
			}
		}
	}
	return found
}

// methods returns the names of the methods of each type. A method with several variants,
// selected by build tags, counts once.
func (t *tree) methods() map[typeKey]map[string]bool {
	all := map[typeKey]map[string]bool{}
	for _, f := range t.files {
		for _, decl := range f.syntax.Decls {
			method, is := decl.(*ast.FuncDecl)
			if !is || method.Recv == nil {
				continue
			}
			key := f.key(receiver(method))
			if all[key] == nil {
				all[key] = map[string]bool{}
			}
			all[key][method.Name.Name] = true
		}
	}
	return all
}

// types returns the types that f declares outside of functions.
func (f *file) types() (all []*ast.TypeSpec) {
	for _, decl := range f.syntax.Decls {
		group, is := decl.(*ast.GenDecl)
		if !is || group.Tok != token.TYPE {
			continue
		}
		for _, spec := range group.Specs {
			if spec, is := spec.(*ast.TypeSpec); is {
				all = append(all, spec)
			}
		}
	}
	return all
}

// sizes returns the number of fields of a struct, or the number of methods of an interface. A type
// embedded in a struct counts as one field. A type embedded in an interface counts as no method.
func sizes(spec *ast.TypeSpec) (fields, methods int) {
	switch t := spec.Type.(type) {
	case *ast.StructType:
		return t.Fields.NumFields(), 0
	case *ast.InterfaceType:
		for _, method := range t.Methods.List {
			methods += len(method.Names)
		}
	}
	return 0, methods
}
