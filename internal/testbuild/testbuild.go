// Package testbuild builds the program throttled for tests that run it as a process.
package testbuild

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Main builds the program, sets *program to its path, runs the tests of a package, and removes the program. It returns the
// exit code for TestMain.
func Main(m *testing.M, program *string) int {
	path, remove, err := Build()
	if err != nil {
		return Fail(err)
	}
	defer remove()
	*program = path
	return m.Run()
}

// Build builds the program into a temporary directory. The caller must call remove.
func Build() (program string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "throttled-tests-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) } // it is a temporary directory
	program = filepath.Join(dir, "throttled")
	if err := buildInto(program); err != nil {
		remove()
		return "", nil, fmt.Errorf("build the server: %w", err)
	}
	return program, remove, nil
}

// buildInto builds the program in the directory of its module, which is another one than that of the tests if these have a
// module of their own.
func buildInto(program string) error {
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/throttledhq/throttled")
	list.Stderr = os.Stderr
	root, err := list.Output()
	if err != nil {
		return fmt.Errorf("find the module: %w", err)
	}
	build := exec.Command("go", "build", "-o", program, "./cmd/throttled")
	build.Dir = strings.TrimSpace(string(root))
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// Fail prints an error, and returns the exit code of a failure.
func Fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}
