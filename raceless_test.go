package throttled

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// makeVariable returns the value of a variable of the Makefile.
func makeVariable(t *testing.T, name string) string {
	t.Helper()
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^` + name + ` := (.*)$`).FindSubmatch(makefile)
	if line == nil {
		t.Fatalf("the Makefile does not define %s", name)
	}
	return string(line[1])
}

// TestRacelessPackages checks that the packages that "make test" runs without the race detector, and their tests,
// start no goroutines and do not import sync or its subpackages.
func TestRacelessPackages(t *testing.T) {
	format := `{{$dir := .Dir}}{{range .GoFiles}}{{$dir}}/{{.}} {{end}}{{range .TestGoFiles}}{{$dir}}/{{.}} {{end}}{{range .XTestGoFiles}}{{$dir}}/{{.}} {{end}}`
	files, err := exec.Command("go", append([]string{"list", "-f", format}, strings.Fields(makeVariable(t, "RACELESS"))...)...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for _, name := range strings.Fields(string(files)) {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			if strings.HasPrefix(spec.Path.Value, `"sync`) {
				t.Errorf("%s imports %s: remove the package from RACELESS", name, spec.Path.Value)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if _, starts := n.(*ast.GoStmt); starts {
				t.Errorf("%s starts a goroutine: remove the package from RACELESS", name)
			}
			return true
		})
	}
}

// TestUnracedTests checks that "make test" runs all tests that the race detector excludes: those in files with the
// constraint !race, and those of allocations in the server, which the detector would change. Either "make test" runs their
// package without the detector too, or they are tests of the server and match RACED_LESS_SERVER.
func TestUnracedTests(t *testing.T) {
	list := strings.Fields(makeVariable(t, "RACELESS") + " " + makeVariable(t, "RACED_LESS") + " " + makeVariable(t, "UNCACHED"))
	out, err := exec.Command("go", append([]string{"list", "-f", "{{.Dir}}"}, list...)...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	unraced := strings.Fields(string(out))
	inServer := regexp.MustCompile(strings.ReplaceAll(makeVariable(t, "RACED_LESS_SERVER"), "$$", "$"))
	server, err := filepath.Abs("server")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range testFiles(t) {
		excluded := excludedByRace(t, name)
		for _, test := range testsIn(t, name) {
			if !excluded && (filepath.Dir(name) != server || !strings.Contains(test, "Allocate")) {
				continue
			}
			if excluded {
				found++
			}
			if !slices.Contains(unraced, filepath.Dir(name)) && (filepath.Dir(name) != server || !inServer.MatchString(test)) {
				t.Errorf("%s: make test runs %s with the race detector only", name, test)
			}
		}
	}
	if found < 5 {
		t.Errorf("%d tests are excluded by the race detector, want at least 5: those of allocations in the server", found)
	}
}

// testFiles returns the paths of all files with tests of all modules.
func testFiles(t *testing.T) (files []string) {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err == nil && entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || entry.Name() == "node_modules"):
			return fs.SkipDir
		case strings.HasSuffix(path, "_test.go"):
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// excludedByRace reports whether the race detector excludes a file of this system.
func excludedByRace(t *testing.T, name string) bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Comments {
		for _, c := range group.List {
			if !constraint.IsGoBuild(c.Text) {
				continue
			}
			expr, err := constraint.Parse(c.Text)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			built := func(race bool) bool {
				return expr.Eval(func(tag string) bool {
					return tag == runtime.GOOS || tag == runtime.GOARCH || tag == "unix" || race && tag == "race"
				})
			}
			return built(false) && !built(true)
		}
	}
	return false
}

// testsIn returns the names of the tests in a file.
func testsIn(t *testing.T, name string) (tests []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" {
			tests = append(tests, f.Name.Name)
		}
	}
	return tests
}
