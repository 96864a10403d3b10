package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/internal/failpoint"
)

// leaseBugRow matches a row of the table of errors in docs/leases.md: a deliberate bug and a test of package lease or lessee.
var leaseBugRow = regexp.MustCompile("(?m)^\\| [^|]+ \\| `(lease-[a-z-]+|lessee-[a-z-]+)` \\| `(Test\\w+)`(?: of package `lessee`)? \\|$")

// lesseeErrorRow matches a row of the same table: an error of a lessee, which a subtest of TestFaults of package lessee
// simulates.
var lesseeErrorRow = regexp.MustCompile("(?m)^\\| [^|]+ \\| - \\| `TestFaults/([^`]+)` of package `lessee` \\|$")

// TestLeaseBugs checks the table of errors in docs/leases.md: it contains each bug of leases and of lessees, and the named test
// fails with the bug, and passes without it.
func TestLeaseBugs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/leases.md")
	if err != nil {
		t.Fatal(err)
	}
	all, err := built()
	if err != nil {
		t.Fatal(err)
	}
	tests, controlled := map[failpoint.Bug]string{}, map[string]bool{}
	for _, row := range leaseBugRow.FindAllStringSubmatch(string(text), -1) {
		s := all.of(failpoint.Bug(row[1]))
		tests[failpoint.Bug(row[1])] = row[2]
		if !controlled[row[2]] && s.fails(t, row[2], "") {
			t.Errorf("%s fails without a bug", row[2])
		}
		controlled[row[2]] = true
		if !s.fails(t, row[2], failpoint.Bug(row[1])) {
			t.Errorf("%s passes with the bug %s", row[2], row[1])
		}
	}
	for _, h := range hunts() {
		if all.of(h.bug) != all.cluster && tests[h.bug] == "" {
			t.Errorf("the table has no row with the bug %s", h.bug)
		}
	}
	subtests, err := os.ReadFile("../../lessee/simulation_test.go")
	if err != nil {
		t.Fatal(err)
	}
	rows := lesseeErrorRow.FindAllStringSubmatch(string(text), -1)
	for _, row := range rows {
		if !strings.Contains(string(subtests), `"`+row[1]+`":`) {
			t.Errorf("TestFaults of package lessee has no subtest %q", row[1])
		}
	}
	if len(rows) == 0 {
		t.Error("the table has no errors of lessees")
	}
}

// fails runs one test with a bug, or without one if it is empty, and reports whether it fails.
func (s *simulation) fails(t *testing.T, test string, bug failpoint.Bug) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), s.bin, "-test.run", "^"+test+"$")
	cmd.Env = append(os.Environ(), "THROTTLED_MUTANT="+string(bug))
	out, err := cmd.CombinedOutput()
	failed := strings.Contains(string(out), "--- FAIL: "+test)
	if (err != nil) != failed || !failed && !strings.Contains(string(out), "PASS") {
		t.Fatalf("%s with the bug %q: error %v, output:\n%s", test, bug, err, out)
	}
	return failed
}
