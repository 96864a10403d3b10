package main

import (
	"go/ast"
	"go/token"
)

// undocumentedExports finds exported names without a comment: functions, types, constants, variables, and the methods
// of exported types. It ignores fields of structs. It also ignores programs and _test.go files, which nothing imports.
func undocumentedExports(t *tree) (found []finding) {
	for _, f := range t.files {
		if f.isTestFile() || f.syntax.Name.Name == "main" {
			continue
		}
		for _, decl := range f.syntax.Decls {
			for _, name := range undocumented(decl) {
				found = append(found, finding{name: f.qualify(name.text), at: f.at(name.pos), test: f.test})
			}
		}
	}
	return found
}

// export is an exported identifier. If it is a method, its text includes its type.
type export struct {
	text string
	pos  token.Pos
}

// undocumented returns the exported names without a comment in a declaration.
func undocumented(decl ast.Decl) (names []export) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		isReachable := decl.Recv == nil || ast.IsExported(receiver(decl))
		if decl.Name.IsExported() && isReachable && decl.Doc == nil {
			names = append(names, export{funcName(decl), decl.Name.Pos()})
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			names = append(names, undocumentedSpec(decl, spec)...)
		}
	}
	return names
}

// undocumentedSpec returns the exported names without a comment in one specification of
// decl. The comment of a group of constants or variables applies to each name in the group.
func undocumentedSpec(decl *ast.GenDecl, spec ast.Spec) (names []export) {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		isAlone := !decl.Lparen.IsValid() && decl.Doc != nil
		if !isAlone && spec.Doc == nil && spec.Comment == nil {
			names = exported("", spec.Name)
		}
		if spec.Name.IsExported() {
			names = append(names, undocumentedMethods(spec)...)
		}
	case *ast.ValueSpec:
		if decl.Doc == nil && spec.Doc == nil && spec.Comment == nil {
			names = exported("", spec.Names...)
		}
	}
	return names
}

// undocumentedMethods returns the exported methods of an interface that have no comment.
func undocumentedMethods(spec *ast.TypeSpec) (names []export) {
	t, is := spec.Type.(*ast.InterfaceType)
	if !is {
		return nil
	}
	for _, method := range t.Methods.List {
		if method.Doc == nil && method.Comment == nil {
			names = append(names, exported(spec.Name.Name+".", method.Names...)...)
		}
	}
	return names
}

// exported returns the names of the exported identifiers among ids, each with prefix.
func exported(prefix string, ids ...*ast.Ident) (names []export) {
	for _, id := range ids {
		if id.IsExported() {
			names = append(names, export{prefix + id.Name, id.Pos()})
		}
	}
	return names
}
