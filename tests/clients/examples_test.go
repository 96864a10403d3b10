package clienttests

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestExamples runs the programs in docs/clients.md with a server that has the rules of the document. Each program must
// print the text after "prints: ".
func TestExamples(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, rules, blocksOf(t, "yaml")[0])
	srv := launch(t, "", "--port", "0", "--rules", rules)
	srv.allow(`level=INFO msg="the rules file is active"`)
	srv.awaitReady(t)
	run := map[string]func(t *testing.T, text string) outcome{
		"go": func(t *testing.T, text string) outcome {
			return runGo(t, strings.ReplaceAll(text, "localhost:6380", srv.addr))
		},
		"python": func(t *testing.T, text string) outcome {
			python := tool(t, "/usr/bin/python3", "python3 python3-redis")
			return runTool(t, "", python, "-W", "error", "-c", strings.ReplaceAll(text, "6380", srv.port(t)))
		},
	}
	for _, c := range []struct {
		language string
		programs int
	}{{"go", 2}, {"python", 1}} {
		programs := blocksOf(t, c.language)
		if len(programs) != c.programs {
			t.Errorf("clients.md has %d programs in %s, want %d", len(programs), c.language, c.programs)
		}
		for _, text := range programs {
			want := regexp.MustCompile(`(?m)^(?://|#) prints: (.*)$`).FindStringSubmatch(text)
			if want == nil {
				t.Fatalf("the program has no comment with the text that it prints:\n%s", text)
			}
			if got := run[c.language](t, text); got.code != 0 || strings.TrimSpace(got.out) != want[1] {
				t.Errorf("%s: got %+v, want %q", c.language, got, want[1])
			}
		}
	}
}

// blocksOf returns the blocks of a language in docs/clients.md.
func blocksOf(t *testing.T, language string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "clients.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, m[1])
	}
	if blocks == nil {
		t.Fatalf("clients.md has no block of %s", language)
	}
	return blocks
}

// runGo runs the text of a Go program as a package of this module, which requires the libraries.
func runGo(t *testing.T, text string) outcome {
	t.Helper()
	dir := t.TempDir()
	file, overlay := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json")
	write(t, file, text)
	module, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(module, "example", "main.go"): file}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, overlay, string(replace))
	return runTool(t, "", tool(t, "go", "golang"), "run", "-overlay", overlay, "./example")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
