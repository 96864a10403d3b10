package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/throttledhq/throttled/mutant"
)

// simulation is the tests of package cluster, in which whole clusters run in one process.
type simulation struct{ bin string }

const simulated = "github.com/throttledhq/throttled/cluster"

// buildSimulation compiles the tests.
func (l *lab) buildSimulation() (*simulation, error) {
	s := &simulation{filepath.Join(l.dir, "cluster.test")}
	return s, run(exec.Command("go", "test", "-tags", "chaos", "-c", "-o", s.bin, simulated))
}

// run runs the tests with a bug let loose, or without one if it is empty, and lists those that fail.
func (s *simulation) run(ctx context.Context, bug mutant.Bug) (failed string, err error) {
	cmd := exec.CommandContext(ctx, s.bin, "-test.timeout", "2m")
	cmd.Env = append(os.Environ(), "THROTTLED_MUTANT="+string(bug))
	cmd.Dir = filepath.Dir(s.bin)
	out, err := cmd.CombinedOutput()
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		return "", fmt.Errorf("run the simulation: %w", err)
	}
	return failures(string(out), err != nil)
}

var (
	failedTest  = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)
	errNoReason = errors.New("the tests have failed for no reason that they tell")
)

// failures lists the tests that have failed, by what they have said. A panic ends all of them.
func failures(said string, bad bool) (names string, err error) {
	var list []string
	for _, m := range failedTest.FindAllStringSubmatch(said, -1) {
		list = append(list, m[1])
	}
	if strings.Contains(said, "\npanic: ") {
		list = append(list, "panic")
	}
	slices.Sort(list)
	if bad && len(list) == 0 {
		err = fmt.Errorf("%w: %s", errNoReason, said)
	}
	return strings.Join(list, " "), err
}
