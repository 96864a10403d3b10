package options

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestHelp(t *testing.T) {
	var got bytes.Buffer
	if err := Help(&got); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "help.txt")
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := mustRead(t, golden); got.String() != want {
		t.Errorf("the help text differs from %s (go test -update rewrites that file):\n%s", golden, &got)
	}
}

func TestHelp_IsReadable(t *testing.T) {
	var help bytes.Buffer
	if err := Help(&help); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(help.String()) {
		if line = strings.TrimSuffix(line, "\n"); len(line) > 100 || strings.TrimRight(line, " ") != line {
			t.Errorf("a line has %d columns, or ends in a space; want at most 100 columns and no space: %q", len(line), line)
		}
	}
	for _, r := range table {
		if n := strings.Count(help.String(), "\n  --"+r.name+" "+r.form+" "); n != 1 {
			t.Errorf("option %s is listed %d times, want once", r.name, n)
		}
	}
}

// TestHelp_NamesTheEnvironment checks that the examples of environment variables in the help are correct.
func TestHelp_NamesTheEnvironment(t *testing.T) {
	for _, example := range []string{"--tcp-keepalive is " + envName("tcp-keepalive"), "--config is " + configEnv} {
		if !strings.Contains(helpHead, example) {
			t.Errorf("the help does not contain %q", example)
		}
	}
}

type brokenWriter struct{}

var errBroken = errors.New("broken pipe")

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func TestHelp_ReturnsTheErrorOfTheWriter(t *testing.T) {
	if err := Help(brokenWriter{}); !errors.Is(err, errBroken) {
		t.Errorf("Help = %v, want the error of the writer", err)
	}
}
