package docs

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/ruleset"
)

// Names of files in the documents.
const (
	rulesFile = "rules.yaml"
	testFile  = "rules_test.yaml"
)

// wallTime returns the time of the clock of the server.
func (p *place) wallTime() time.Time { return time.Unix(0, int64(p.now.Load())).UTC() }

// save writes the rules file of a step, and makes it the active version as a server with --rules does. The version before
// stays active if the file is not valid.
func (p *place) save(t *testing.T, file string, st *step) {
	t.Helper()
	p.write(t, rulesFile, st.rules)
	_, err := p.log.Propose(t.Context(), ruleset.Proposal{Name: rulesFile, Text: st.rules, Author: "file " + rulesFile})
	if (err != nil) != st.wrong {
		t.Fatalf("%s:%d: the error of the rules file is %v; want an error: %v", file, st.line, err, st.wrong)
	}
	p.rules.SetFile(ruleset.RulesFile{Hash: ruleset.HashOf(st.rules), Problem: err})
}

// write writes a file to the directory of the rules file.
func (p *place) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run returns the output of the program, which runs in the directory of the rules file.
func (p *place) run(t *testing.T, args []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.program, args...)
	cmd.Dir = p.dir
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Fatalf("%s %v: %v", p.program, args, err)
	}
	return string(out)
}

// grep returns the lines that contain a text.
func grep(lines, text string) string {
	if text == "" {
		return lines
	}
	var found strings.Builder
	for line := range strings.Lines(lines) {
		if strings.Contains(line, text) {
			found.WriteString(strings.TrimRight(line, "\r\n") + "\n")
		}
	}
	return found.String()
}

// buildProgram builds bin/throttled and returns its path.
func buildProgram(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "throttled")
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/throttledhq/throttled/cmd/throttled").CombinedOutput()
	if err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	return path
}

// TestRulesFileIsWatched starts the program with the first rules file of the tutorial, and replaces the file by each of the
// others. The program must activate the valid ones, and report the others.
func TestRulesFileIsWatched(t *testing.T) {
	files := rulesFiles(t, "rules-tutorial.md")
	p := place{dir: t.TempDir()}
	p.write(t, rulesFile, files[0].rules)
	logged := startProgram(t, p.dir, "--port", "0", "--rules", rulesFile)
	waitFor(t, logged, "msg=ready")
	for i, st := range files[1:] {
		if st.rules == files[i].rules {
			continue
		}
		p.write(t, "new.yaml", st.rules)
		if err := os.Rename(filepath.Join(p.dir, "new.yaml"), filepath.Join(p.dir, rulesFile)); err != nil {
			t.Fatal(err)
		}
		want := "the rules file is active"
		if st.wrong {
			want = "the rules file has no effect"
		}
		waitFor(t, logged, want)
	}
}

// rulesFiles returns the steps of a document that save a rules file.
func rulesFiles(t *testing.T, name string) (files []step) {
	t.Helper()
	all, err := sessions(name, documents(t)[name])
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		for _, st := range s.steps {
			if st.rules != "" {
				files = append(files, st)
			}
		}
	}
	if len(files) < 2 {
		t.Fatalf("%s has %d rules files, want at least 2", name, len(files))
	}
	return files
}

// startProgram starts the program in a directory and returns the lines that it logs.
func startProgram(t *testing.T, dir string, args ...string) <-chan string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), buildProgram(t), args...)
	cmd.Dir = dir
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1<<10)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		for range lines { // the context of the test is done, so the program is killed
			continue
		}
		_ = cmd.Wait() // the error reports the kill
	})
	return lines
}

// waitFor waits for a line with a text.
func waitFor(t *testing.T, lines <-chan string, text string) {
	t.Helper()
	var seen []string
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case line, ok := <-lines:
			seen = append(seen, line)
			if !ok {
				t.Fatalf("the program has stopped, and has not logged %q but\n%s", text, strings.Join(seen, "\n"))
			}
			if strings.Contains(line, text) {
				return
			}
		case <-timer.C:
			t.Fatalf("the program has not logged %q but\n%s", text, strings.Join(seen, "\n"))
		}
	}
}
