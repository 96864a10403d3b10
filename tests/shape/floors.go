package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
)

// readFloors returns the floor of each package, by its directory, from the map named floors in the Go file at name. A
// package may import only packages of lower floors.
func readFloors(name string) (map[string]int, error) {
	syntax, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	table := variable(syntax, "floors")
	if table == nil {
		return nil, fmt.Errorf("%s has no map named floors", name)
	}
	floors := map[string]int{}
	for _, element := range table.Elts {
		dir, floor, err := parseFloor(element)
		if err != nil {
			return nil, fmt.Errorf("%s: floors: %w", name, err)
		}
		floors[dir] = floor
	}
	return floors, nil
}

// variable returns the composite literal that initializes a variable of the package, or nil.
func variable(syntax *ast.File, name string) (literal *ast.CompositeLit) {
	ast.Inspect(syntax, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if is && spec.Names[0].Name == name && len(spec.Values) == 1 {
			literal, _ = spec.Values[0].(*ast.CompositeLit)
		}
		_, isFunction := n.(*ast.FuncDecl)
		return !isFunction
	})
	return literal
}

// parseFloor returns the directory and the floor in an element such as "server": 6.
func parseFloor(element ast.Expr) (dir string, floor int, err error) {
	pair, isPair := element.(*ast.KeyValueExpr)
	if !isPair {
		return "", 0, fmt.Errorf("an element has no key")
	}
	key, isKey := pair.Key.(*ast.BasicLit)
	value, isValue := pair.Value.(*ast.BasicLit)
	if !isKey || !isValue {
		return "", 0, fmt.Errorf("an element is not made of literals")
	}
	if dir, err = strconv.Unquote(key.Value); err != nil {
		return "", 0, fmt.Errorf("key %s: %w", key.Value, err)
	}
	if floor, err = strconv.Atoi(value.Value); err != nil {
		return "", 0, fmt.Errorf("floor of %s: %w", dir, err)
	}
	return dir, floor, nil
}

// upwardImports finds imports of packages on the same floor or above. Packages without a floor are left out:
// another test, TestImportsPointDown, fails for them.
func upwardImports(t *tree) (found []finding) {
	type edge struct {
		from, to string
		test     bool
	}
	seen := map[edge]bool{}
	for _, f := range t.files {
		for _, to := range t.imports(f) {
			e := edge{f.dir, to, f.test}
			if seen[e] || !t.pointsUp(f.dir, to) {
				continue
			}
			seen[e] = true
			found = append(found, finding{
				name: f.dir + " -> " + to,
				size: fmt.Sprintf("floor %d -> %d", t.floors[f.dir], t.floors[to]),
				at:   f.path,
				test: f.test,
			})
		}
	}
	return found
}

// pointsUp reports whether an import is an error because the imported package is on the same floor
// as the importing package or above. The arguments are the directories of the importing and of the
// imported package. The tests of a package may import the package itself.
func (t *tree) pointsUp(from, to string) bool {
	low, known := t.floors[from]
	high, alsoKnown := t.floors[to]
	return known && alsoKnown && from != to && high >= low
}
