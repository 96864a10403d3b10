// Package testbuild builds the program throttled for tests that run it as a process.
package testbuild

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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
	build := exec.Command("go", "build", "-o", program, "./cmd/throttled")
	_, source, _, _ := runtime.Caller(0)
	build.Dir = filepath.Join(filepath.Dir(source), "..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		remove()
		return "", nil, fmt.Errorf("build the server: %w\n%s", err, out)
	}
	return program, remove, nil
}

// Fail prints an error, and returns the exit code of a failure.
func Fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}
