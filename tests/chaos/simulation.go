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

	"github.com/throttledhq/throttled/internal/failpoint"
)

// simulation is the compiled test binary of a package: of package cluster, whose tests run whole clusters in one process,
// of package lease, whose tests run histories of one key, or of package lessee, whose tests simulate lessees.
type simulation struct{ bin string }

// buildSimulation compiles the tests of a package of the repository.
func (l *lab) buildSimulation(name string) (*simulation, error) {
	s := &simulation{filepath.Join(l.dir, name+".test")}
	return s, run(exec.Command("go", "test", "-C", repository, "-tags", "chaos", "-c", "-o", s.bin, "./"+name))
}

// simulations are the simulations of the bugs of leases, of lessees, and of all other bugs.
type simulations struct{ lease, lessee, cluster *simulation }

// buildSimulations compiles the tests of all three packages.
func (l *lab) buildSimulations() (s simulations, err error) {
	for name, sim := range map[string]**simulation{"lease": &s.lease, "lessee": &s.lessee, "cluster": &s.cluster} {
		if *sim, err = l.buildSimulation(name); err != nil {
			return s, err
		}
	}
	return s, nil
}

// of returns the simulation that can expose a bug.
func (s simulations) of(bug failpoint.Bug) *simulation {
	switch {
	case strings.HasPrefix(string(bug), "lease-"):
		return s.lease
	case strings.HasPrefix(string(bug), "lessee-"):
		return s.lessee
	}
	return s.cluster
}

// run runs the tests with a bug enabled, or with no bug if bug is empty, and returns the
// failed tests.
func (s *simulation) run(ctx context.Context, bug failpoint.Bug) (failed foundBy, err error) {
	cmd := exec.CommandContext(ctx, s.bin, "-test.timeout", "2m")
	cmd.Env = append(os.Environ(), "THROTTLED_MUTANT="+string(bug))
	cmd.Dir = filepath.Dir(s.bin)
	out, err := cmd.CombinedOutput()
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		return failed, fmt.Errorf("run the simulation: %w", err)
	}
	return failures(string(out), err != nil)
}

// judges is the file in package cluster that contains the safety checks of all tests.
// judging lists tests that check safety directly and rarely fail for other reasons.
const judges = "checks_test.go:"

var judging = map[string]bool{
	"TestClock": true, "TestWallClocksDoNotCount": true, "TestStaleNodeDoesNotKnowTheTime": true, // check the log time
	"TestVoidEntry": true, "TestLimitHolds": true, "TestSingleNode": true, // check charges
	"TestMajorityLossSurvivorLeads": true, "TestMajorityLossOtherLeads": true, "TestMajorityLossCountsOnce": true, "TestMajorityLossLeases": true,
	"TestLease": true, "TestMixedHeartbeats": true, // check answers of a node that may no longer be the leader
	"TestHeartbeatWaitsForAll": true, "TestHeartbeatsState": true,
	"TestRulesOfStandaloneNode": true, // checks the rules of a leader
	// The tests of package lease check the units that are admitted directly and by leases.
	"TestHistories": true, "TestReturnKeepsLaterLease": true, "TestLateReturn": true, "TestReturn": true, "TestDelete": true,
	"TestDelay": true, // checks how long leases delay admissions
	// The tests of package lessee check the units that a lessee spends.
	"TestGroups": true,
}

var (
	failedTest  = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)
	panicked    = regexp.MustCompile(`(?m)^panic: `)
	errNoReason = errors.New("the tests failed without naming a test")
)

// failures returns the failed tests that the output of a run names: tests that failed a safety
// check, and the others. A panic stops all tests and counts as one of the others. The bad argument
// is true if the run failed; then at least one test must be named.
func failures(output string, bad bool) (failed foundBy, err error) {
	var unsafe, others []string
	places := failedTest.FindAllStringSubmatchIndex(output, -1)
	for i, at := range places {
		end := len(output)
		if i+1 < len(places) {
			end = places[i+1][0]
		}
		name := output[at[2]:at[3]]
		if judging[name] || strings.Contains(output[at[0]:end], judges) {
			unsafe = append(unsafe, name)
		} else {
			others = append(others, name)
		}
	}
	if panicked.MatchString(output) {
		others = append(others, "panic")
	}
	slices.Sort(unsafe)
	slices.Sort(others)
	if bad && len(unsafe)+len(others) == 0 {
		err = fmt.Errorf("%w: %s", errNoReason, output)
	}
	return foundBy{strings.Join(unsafe, " "), strings.Join(others, " ")}, err
}
