package throttled

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestRacelessPackages checks that the packages that "make test" runs without the race detector, and their tests,
// start no goroutines and do not import sync or its subpackages.
func TestRacelessPackages(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^RACELESS := (.*)$`).FindSubmatch(makefile)
	if line == nil {
		t.Fatal("the Makefile does not define RACELESS")
	}
	format := `{{$dir := .Dir}}{{range .GoFiles}}{{$dir}}/{{.}} {{end}}{{range .TestGoFiles}}{{$dir}}/{{.}} {{end}}{{range .XTestGoFiles}}{{$dir}}/{{.}} {{end}}`
	files, err := exec.Command("go", append([]string{"list", "-f", format}, strings.Fields(string(line[1]))...)...).Output()
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
