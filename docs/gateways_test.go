package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// excerpt matches a block with an excerpt of a file in examples.
var excerpt = regexp.MustCompile("(?ms)^```\\w+ (examples/\\S+)\n(.*?)^```$")

// TestGateways checks that the excerpts of configurations are in the files, which tests/gateways runs.
func TestGateways(t *testing.T) {
	text, err := os.ReadFile("gateways.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := excerpt.FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 5 {
		t.Errorf("%d excerpts, want one for each gateway", len(blocks))
	}
	for _, block := range blocks {
		file, err := os.ReadFile(filepath.Join("..", block[1]))
		if err != nil {
			t.Error(err)
			continue
		}
		if !strings.Contains(unindent(string(file)), unindent(block[2])) {
			t.Errorf("%s does not have these lines:\n%s", block[1], block[2])
		}
	}
}

// TestExamples checks that the overview of the examples has a link to each of them.
func TestExamples(t *testing.T) {
	text, err := os.ReadFile("../examples/README.md")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := filepath.Glob("../examples/*/rules.yaml")
	if err != nil || len(rules) == 0 {
		t.Fatalf("%d examples: %v", len(rules), err)
	}
	for _, name := range rules {
		dir := filepath.Base(filepath.Dir(name))
		if !strings.Contains(string(text), "("+dir+")") && !strings.Contains(string(text), "("+dir+"/") {
			t.Errorf("examples/README.md has no link to %s", dir)
		}
	}
}

// unindent returns a text without the white space at the beginning of its lines.
func unindent(text string) string {
	return "\n" + regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(text, "")
}
