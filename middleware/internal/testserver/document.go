package testserver

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// Programs returns the Go programs in docs/middleware.md.
func Programs(t testing.TB) (programs []string) {
	t.Helper()
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "middleware.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range goBlock.FindAllStringSubmatch(string(text), -1) {
		programs = append(programs, block[1])
	}
	return programs
}

// BuildText builds the text of a program as a package of the module in the working directory, and returns the path of the
// result.
func BuildText(t testing.TB, text string) string {
	t.Helper()
	module, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	overlay, err := json.Marshal(struct{ Replace map[string]string }{
		Replace: map[string]string{filepath.Join(module, "example", "main.go"): at("main.go")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"main.go": text, "overlay.json": string(overlay)} {
		if err := os.WriteFile(at(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-overlay", at("overlay.json"), "-o", at("program"), "./example")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s\n%s", err, out, text)
	}
	return at("program")
}
