package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// built builds the simulations at the first call, and returns them.
var built = sync.OnceValues(func() (simulations, error) { return (&lab{dir: sharedDir}).buildSimulations() })

// TestBuildSimulation checks that the simulations can be built, that they contain all tests in judging, and that the file
// with its safety checks exists.
func TestBuildSimulation(t *testing.T) {
	s, err := built()
	if err != nil {
		t.Fatal(err)
	}
	var tests []string
	for _, bin := range []string{s.cluster.bin, s.lease.bin, s.lessee.bin} {
		out, err := exec.Command(bin, "-test.list", ".").Output()
		if err != nil {
			t.Fatal(err)
		}
		tests = append(tests, strings.Fields(string(out))...)
	}
	for name := range judging {
		if !slices.Contains(tests, name) {
			t.Errorf("no simulation has the test %s", name)
		}
	}
	file := strings.TrimSuffix(judges, ":")
	if found, _ := filepath.Glob(filepath.Join(repository, "cluster", file)); found == nil {
		t.Errorf("package cluster has no file %s", file)
	}
}

func TestFailures(t *testing.T) {
	for _, tt := range []struct {
		output string
		bad    bool
		want   foundBy
		err    bool
	}{
		{"PASS\n", false, foundBy{}, false},
		{"--- FAIL: TestB (0.1s)\n    --- FAIL: TestB/sub (0s)\n    x.go:1: --- FAIL: no\n--- FAIL: TestA (0s)\nFAIL\n", true, foundBy{others: "TestA TestB"}, false},
		{"--- FAIL: TestB (0.1s)\n    checks_test.go:7: 9 admitted\n--- FAIL: TestA (0s)\n    x.go:1: slow\n", true, foundBy{"TestB", "TestA"}, false},
		{"--- FAIL: TestVoidEntry (0.1s)\n    x.go:7: 9 left\n", true, foundBy{safety: "TestVoidEntry"}, false},
		{"--- FAIL: TestB (0.1s)\n\npanic: test timed out after 1m\n", true, foundBy{others: "TestB panic"}, false},
		{"panic: test timed out after 1m\n", true, foundBy{others: "panic"}, false},
		{"exec format error\n", true, foundBy{}, true},
	} {
		if got, err := failures(tt.output, tt.bad); got != tt.want || (err != nil) != tt.err {
			t.Errorf("output %q: failed tests %+v, error: %v; want the result of the case", tt.output, got, err)
		}
	}
}
