package main

import (
	"fmt"
	"go/ast"
)

const (
	maxFunctionLines = 40
	maxFileLines     = 400
)

// function is a function declaration, or a function literal that initializes a variable of a package.
type function struct {
	*file
	name string // qualified with the directory of the package
	node ast.Node
	body *ast.BlockStmt
}

// functions returns the functions of a file that have a body, in their order.
func (f *file) functions() (all []function) {
	for _, decl := range f.syntax.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Body != nil {
				all = append(all, function{f, f.qualify(funcName(decl)), decl, decl.Body})
			}
		case *ast.GenDecl:
			all = append(all, f.literals(decl)...)
		}
	}
	return all
}

// funcName returns the name of a function, with its receiver's type.
func funcName(decl *ast.FuncDecl) string {
	if decl.Recv == nil {
		return decl.Name.Name
	}
	return receiver(decl) + "." + decl.Name.Name
}

// receiver returns the name of the type of a method.
func receiver(decl *ast.FuncDecl) string {
	name := "_"
	ast.Inspect(decl.Recv.List[0].Type, func(n ast.Node) bool {
		id, is := n.(*ast.Ident)
		if is && name == "_" {
			name = id.Name // type parameters follow the name
		}
		return name == "_"
	})
	return name
}

// literals returns the outermost function literals in the variables of decl, each under
// the name of its variable.
func (f *file) literals(decl *ast.GenDecl) (all []function) {
	for _, spec := range decl.Specs {
		values, is := spec.(*ast.ValueSpec)
		if !is {
			continue
		}
		ast.Inspect(values, func(n ast.Node) bool {
			literal, is := n.(*ast.FuncLit)
			if is {
				all = append(all, function{f, f.qualify(values.Names[0].Name), literal, literal.Body})
			}
			return !is
		})
	}
	return all
}

// isTable reports whether more than half of the lines of the body are one composite literal. Lines
// of function literals in the composite literal do not count.
func (fn function) isTable() bool {
	largest := 0
	ast.Inspect(fn.body, func(n ast.Node) bool {
		if literal, is := n.(*ast.CompositeLit); is {
			largest = max(largest, fn.lines(literal)-fn.codeLines(literal))
		}
		return true
	})
	return 2*largest > fn.lines(fn.body)
}

// codeLines returns the number of lines in the outermost function literals in n. The first line
// of each literal does not count.
func (f *file) codeLines(n ast.Node) (lines int) {
	ast.Inspect(n, func(n ast.Node) bool {
		literal, is := n.(*ast.FuncLit)
		if is {
			lines += f.lines(literal) - 1
		}
		return !is
	})
	return lines
}

// longFunctions finds functions over the limit that are not tables.
func longFunctions(t *tree) []finding { return t.long(false) }

// longTables finds functions over the limit that are tables.
func longTables(t *tree) []finding { return t.long(true) }

// long finds functions over the limit: those that are tables if tables is true, otherwise the others.
func (t *tree) long(tables bool) (found []finding) {
	for _, f := range t.files {
		for _, fn := range f.functions() {
			if n := f.lines(fn.node); n > maxFunctionLines && fn.isTable() == tables {
				found = append(found, finding{name: fn.name, size: count(n, "line"), at: f.at(fn.node.Pos()), test: f.test})
			}
		}
	}
	return found
}

// longFiles finds files over the limit.
func longFiles(t *tree) (found []finding) {
	for _, f := range t.files {
		if n := f.tokens.LineCount(); n > maxFileLines {
			found = append(found, finding{name: f.path, size: count(n, "line"), test: f.test})
		}
	}
	return found
}

// count returns a number and its noun as text.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
