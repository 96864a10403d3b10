package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// writeTree writes files to a new directory and returns it. A go.mod and an empty table of floors are added if they
// are missing.
func writeTree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	all := map[string]string{
		"go.mod":         "module example.com/m\n",
		"floors_test.go": "package m\n\nvar floors = map[string]int{}\n",
	}
	for name, text := range files {
		all[name] = text
	}
	for name, text := range all {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// find returns the findings in the production code and in the tests of files, each finding as "name: size".
func find(t *testing.T, measure func(*tree) []finding, files map[string]string) (production, tests []string) {
	t.Helper()
	loaded, err := load(writeTree(t, files))
	if err != nil {
		t.Fatal(err)
	}
	all := measure(loaded)
	return texts(sorted(all, false)), texts(sorted(all, true))
}

func texts(all []finding) (texts []string) {
	for _, f := range all {
		texts = append(texts, strings.TrimSuffix(f.name+": "+f.size, ": "))
	}
	return texts
}

// check fails the test if the findings differ from the wanted ones.
func check(t *testing.T, where string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", where, got, want)
	}
}

// code returns a function with the given number of lines.
func code(name string, lines int) string {
	return fmt.Sprintf("func %s {\n%s}\n", name, strings.Repeat("\twork()\n", lines-2))
}

// table returns a function with the given number of lines, some of which are a table.
func table(name string, lines, rows int) string {
	return fmt.Sprintf("func %s {\n\tuse([]int{\n%s\t})\n%s}\n", name, strings.Repeat("\t\t1,\n", rows-2), strings.Repeat("\twork()\n", lines-rows-2))
}

func TestLongFunctions(t *testing.T) {
	files := map[string]string{
		"cmd/p/main.go": "package main\n\n" + code("short()", 40) + code("long()", 41) + code("(m *Map[K, V]) method()", 42) +
			"var handler = handle(func() {\n" + strings.Repeat("\twork()\n", 40) + "})\n" +
			table("mostlyCode()", 50, 25) + table("mostlyTable()", 50, 26) + table("shortTable()", 40, 30) +
			"func cases() {\n\tuse([]func(){\n\t\tfunc() {\n" + strings.Repeat("\t\t\twork()\n", 40) + "\t\t},\n\t})\n}\n",
		"cmd/p/main_test.go": "package main\n\n" + code("TestLong()", 41) + table("TestTable()", 60, 50),
	}
	production, tests := find(t, longFunctions, files)
	check(t, "functions", production, "cmd/p.Map.method: 42 lines", "cmd/p.cases: 46 lines", "cmd/p.handler: 42 lines", "cmd/p.long: 41 lines", "cmd/p.mostlyCode: 50 lines")
	check(t, "functions of tests", tests, "cmd/p.TestLong: 41 lines")
	production, tests = find(t, longTables, files)
	check(t, "tables", production, "cmd/p.mostlyTable: 50 lines")
	check(t, "tables of tests", tests, "cmd/p.TestTable: 60 lines")
}

func TestLongFiles(t *testing.T) {
	production, tests := find(t, longFiles, map[string]string{
		"cmd/p/a.go":      "package main\n" + strings.Repeat("\n", 399),
		"cmd/p/b.go":      "package main\n" + strings.Repeat("\n", 400),
		"cmd/p/b_test.go": "package main\n" + strings.Repeat("\n", 401),
	})
	check(t, "production", production, "cmd/p/b.go: 401 lines")
	check(t, "tests", tests, "cmd/p/b_test.go: 402 lines")
}

// methods returns n methods of a type.
func methods(receiver string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "func (%s) m%d() {}\n", receiver, i)
	}
	return b.String()
}

func TestLargeTypes(t *testing.T) {
	fields := "struct { a, b, c, d, e, f, g, h, i, j, k, l, m, n int; "
	production, tests := find(t, largeTypes, map[string]string{
		"cmd/p/a.go": "package main\n" +
			"type fits " + fields + "o int }\n" + methods("*fits", 25) +
			"type wide " + fields + "o int; Embedded }\n" +
			"type busy int\n" +
			"type asked interface { Embedded; " + strings.Repeat("M(); ", 26) + "}\n",
		"cmd/p/b.go":      "package main\n" + methods("b *busy", 26),
		"cmd/p/other.go":  "//go:build other\n\npackage main\n" + methods("b *busy", 26),
		"cmd/p/b_test.go": "package main\n" + "func (*fits) forTests() {}\n" + "type double struct{}\n" + methods("double", 27),
	})
	check(t, "production", production, "cmd/p.asked: 0 fields, 26 methods", "cmd/p.busy: 0 fields, 26 methods", "cmd/p.wide: 16 fields, 0 methods")
	check(t, "tests", tests, "cmd/p.double: 0 fields, 27 methods")
}

// library has exported names with and without comments.
const library = `package lib
func F() {}
// G is documented.
func G() {}
func f() {}
type T struct{ Field int }
func (T) M() {}
// N is documented.
func (*T) N() {}
type u struct{}
func (u) M() {}
// I is documented.
type I interface {
	// A is documented.
	A()
	B() // is documented
	C()
}
// Errors are documented.
var (
	Err = 1
)
const (
	First, Second = 1, 2
	// Third is documented.
	Third = 3
	Fourth = 4 // is documented
)
// Types in a group need comments of their own.
type (
	V int
	// W is documented.
	W int
)
`

func TestUndocumentedExports(t *testing.T) {
	production, tests := find(t, undocumentedExports, map[string]string{
		"cmd/p/main.go":   "package main\n\nimport _ \"example.com/m/lib\"\n\nfunc Main() {}\n",
		"lib/lib.go":      library,
		"lib/lib_test.go": "package lib\n\nfunc TestF() {}\n",
		"unused/a.go":     "package unused\n\nfunc U() {}\n",
	})
	check(t, "production", production, "lib.F", "lib.First", "lib.I.C", "lib.Second", "lib.T", "lib.T.M", "lib.V")
	check(t, "tests", tests, "unused.U")
}

func TestUpwardImports(t *testing.T) {
	imports := func(paths ...string) string {
		return "package p\n\nimport (\n\t\"fmt\"\n\t\"example.com/m/" + strings.Join(paths, "\"\n\t\"example.com/m/") + "\"\n)\n"
	}
	production, tests := find(t, upwardImports, map[string]string{
		"floors_test.go": "package m\n\nvar floors = map[string]int{\"low\": 0, \"left\": 1, \"right\": 1, \"cmd/p\": 2}\n",
		"cmd/p/main.go":  imports("low", "left", "unknown"),
		"left/a.go":      imports("low", "right", "unknown"),
		"left/b.go":      imports("right"),
		"left/a_test.go": imports("left", "cmd/p"),
		"right/a.go":     imports("low"),
		"low/a.go":       imports("unknown"),
		"unknown/a.go":   imports("right"),
	})
	check(t, "production", production, "left -> right: floor 1 -> 1")
	check(t, "tests", tests, "left -> cmd/p: floor 1 -> 2")
}

func TestWords(t *testing.T) {
	loaded, err := load(writeTree(t, map[string]string{
		"cmd/p/a.go": "//go:build what\n\n/*\nWhat says? Somewhat essayed.\n*/\npackage main // tells whose\n\n//nolint:who\nvar nobody = \"what\"\n",
		"a_test.go":  "package m\n\n// Whoever was told, whatever\n// it says, and whom.\n",
	}))
	if err != nil {
		t.Fatal(err)
	}
	all := measureTree(loaded).figures()
	for i, want := range [][2]float64{{250, 500}, {0, 1000}, {500, 1000}} {
		title := phrases[i].title
		if got := [2]float64{all.Production.Words[title], all.Tests.Words[title]}; got != want {
			t.Errorf("%s: got %v, want %v", title, got, want)
		}
	}
	if got := [2]int{all.Production.Sizes[sizeComments], all.Tests.Sizes[sizeComments]}; got != [2]int{4, 2} {
		t.Errorf("comment lines of production code and tests: got %v, want [4 2]", got)
	}
}
