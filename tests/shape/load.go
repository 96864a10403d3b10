package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// file is a parsed source file.
type file struct {
	path   string // relative to the root of the repository, with slashes
	dir    string // directory of path; "." at the root
	source []byte
	syntax *ast.File
	tokens *token.File
	test   bool // not production code
}

// tree is the source code of a repository.
type tree struct {
	module string  // the path of the main module
	files  []*file // in the order of their paths
	floors map[string]int
}

// load reads the repository at root: its module path, its floors and all of its Go files.
func load(root string) (*tree, error) {
	module, err := readModule(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, err
	}
	floors, err := readFloors(filepath.Join(root, "floors_test.go"))
	if err != nil {
		return nil, err
	}
	t := &tree{module: module, floors: floors}
	if err := t.loadFiles(root); err != nil {
		return nil, err
	}
	t.markTests()
	return t, nil
}

var moduleLine = regexp.MustCompile(`(?m)^module (\S+)$`)

// readModule returns the module path in the go.mod file at name.
func readModule(name string) (string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	line := moduleLine.FindSubmatch(text)
	if line == nil {
		return "", fmt.Errorf("%s has no module line", name)
	}
	return string(line[1]), nil
}

// loadFiles parses the Go files below root, in lexical order.
func (t *tree) loadFiles(root string) error {
	fset := token.NewFileSet()
	return filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != root && isIgnored(entry.Name()):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		return t.loadFile(fset, name, filepath.ToSlash(relative))
	})
}

// isIgnored reports whether the go command ignores directories of this name.
func isIgnored(name string) bool {
	return name == "testdata" || name == "vendor" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}

// loadFile parses one file and appends it, unless it is generated.
func (t *tree) loadFile(fset *token.FileSet, name, relative string) error {
	source, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	syntax, err := parser.ParseFile(fset, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if !ast.IsGenerated(syntax) {
		t.files = append(t.files, &file{
			path: relative, dir: path.Dir(relative), source: source, syntax: syntax, tokens: fset.File(syntax.FileStart),
		})
	}
	return nil
}

// markTests sets test on each file that is not production code.
func (t *tree) markTests() {
	shipped := t.shipped()
	for _, f := range t.files {
		f.test = f.isTestFile() || !shipped[f.dir]
	}
}

// isLibrary reports whether a directory has a package for programs of users.
func isLibrary(dir string) bool {
	top, _, _ := strings.Cut(dir, "/")
	return (top == "client" || top == "middleware") && !strings.Contains(dir, "/internal/")
}

// shipped returns the directories of the packages in cmd/, client/ and middleware/, and of all packages that they
// import, directly or indirectly.
func (t *tree) shipped() map[string]bool {
	imports := map[string][]string{}
	var queue []string
	for _, f := range t.files {
		if f.isTestFile() {
			continue
		}
		imports[f.dir] = append(imports[f.dir], t.imports(f)...)
		if strings.HasPrefix(f.dir, "cmd/") || isLibrary(f.dir) {
			queue = append(queue, f.dir)
		}
	}
	shipped := map[string]bool{}
	for len(queue) > 0 {
		dir := queue[0]
		queue = queue[1:]
		if !shipped[dir] {
			shipped[dir] = true
			queue = append(queue, imports[dir]...)
		}
	}
	return shipped
}

// imports returns the directories of the packages of this repository that f imports.
func (t *tree) imports(f *file) (dirs []string) {
	for _, spec := range f.syntax.Imports {
		if dir, inside := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), t.module+"/"); inside {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// isTestFile reports whether the go command builds f for tests only.
func (f *file) isTestFile() bool { return strings.HasSuffix(f.path, "_test.go") }

// line returns the line of pos.
func (f *file) line(pos token.Pos) int { return f.tokens.Line(pos) }

// lines returns the number of lines that n spans, including its first and last line.
func (f *file) lines(n ast.Node) int { return f.line(n.End()) - f.line(n.Pos()) + 1 }

// at returns the path of f and the line of pos.
func (f *file) at(pos token.Pos) string { return fmt.Sprintf("%s:%d", f.path, f.line(pos)) }

// qualify returns name with the directory of its package.
func (f *file) qualify(name string) string {
	if f.dir == "." {
		return f.syntax.Name.Name + "." + name
	}
	return f.dir + "." + name
}
