package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// root is the root directory of the repository.
const root = "../.."

// patience is the time after which a test fails; it is never reached otherwise.
const patience = 2 * time.Minute

// program is the path of the server, built like that of the packages and of the image.
var program string

func TestMain(m *testing.M) { os.Exit(build(m)) }

// build builds the server, runs the tests, and returns the exit code.
func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "throttled-deploy-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()     // it is a temporary directory
	if err := os.Chmod(dir, 0o755); err != nil { // other users run the program
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	program = filepath.Join(dir, "throttled")
	cmd := exec.Command("go", "build", "-trimpath", "-o", program, "./cmd/throttled")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the server: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// read returns the text of a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// run runs a command, and returns its output. The test fails if the command fails.
func run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
