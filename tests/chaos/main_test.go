package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttledhq/throttled/internal/failpoint"
)

// sharedDir is the directory of the programs that the tests share.
var sharedDir string

// TestMain removes the programs after the tests.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "throttled-chaos-tests-")
	if err != nil {
		panic(err)
	}
	sharedDir = dir
	code := m.Run()
	_ = os.RemoveAll(dir) // it is a temporary directory
	os.Exit(code)
}

// program builds the program at the first call, and returns its path.
var program = sync.OnceValues(func() (string, error) {
	l := &lab{settings: settings{dir: sharedDir}}
	err := l.open()
	return l.bin, err
})

// openLab returns a lab with the arguments of a run, and the scenarios that they name. The report is written to the output of the test.
func openLab(t *testing.T, args ...string) (l *lab, names []string) {
	t.Helper()
	bin, err := program()
	if err != nil {
		t.Fatal(err)
	}
	s, names, err := parse(append([]string{"-dir", t.TempDir(), "-bin", bin}, args...))
	if err != nil {
		t.Fatal(err)
	}
	l = newLab(s, &report{w: t.Output(), verbose: s.verbose})
	if err := l.open(); err != nil {
		t.Fatal(err)
	}
	return l, names
}

// TestShort runs the scenario short, and the scenario rules for a few seconds: real nodes in network
// namespaces under load and faults. Other tests run concurrently, so missed bars do not count, but all
// guarantees must hold. A failed run is repeated if a slow machine can have caused all of its findings.
func TestShort(t *testing.T) { runUntilTimely(t, "-for", "6s", "short", "rules") }

// runUntilTimely runs scenarios, and fails the test if they have findings. It repeats a run whose findings a slow machine can
// have caused.
func runUntilTimely(t *testing.T, args ...string) {
	t.Helper()
	repeatWhileBusy(t, func() ([]finding, error) { return runShort(t, args) })
}

// repeatWhileBusy calls run, and fails the test if it returns findings or an error. It repeats a run whose findings a slow machine can
// have caused.
func repeatWhileBusy(t *testing.T, run func() ([]finding, error)) {
	t.Helper()
	const most = 4
	for try := 1; ; try++ {
		findings, err := run()
		if err == nil && len(findings) == 0 {
			return
		}
		late := !slices.ContainsFunc(findings, func(f finding) bool { return !timely[f.checker] })
		if !late || try == most {
			t.Fatalf("try %d: error: %v, findings: %v; want neither", try, err, findings)
		}
		t.Logf("try %d: the machine is too busy: error: %v, findings: %v", try, err, findings)
	}
}

// timely lists the checkers whose findings can be caused by a slow machine.
var timely = map[string]bool{"healing": true, "pressure": true, "starved": true}

// runShort returns the findings of a run, and the error that stopped it early, if any. It
// does not report missed bars.
func runShort(t *testing.T, args []string) ([]finding, error) {
	t.Helper()
	l, names := openLab(t, append([]string{"-v"}, args...)...)
	chosen, err := choose(names)
	if err != nil {
		t.Fatal(err)
	}
	if err = l.runAll(t.Context(), chosen); err != nil && onlyMissed(err) {
		err = nil
	}
	return l.out.findings, err
}

// onlyMissed reports whether the only failures of a run are missed bars.
func onlyMissed(err error) bool { return err.Error() == errFailed.Error() }

func TestParse(t *testing.T) {
	s, names, err := parse([]string{"mix", "-seed", "7", "clock", "-for=3s", "-nodes", "5", "-times", "2", "-faults", "9", "-only", "x", "-keep", "-v"})
	want := settings{seed: 7, last: 3 * time.Second, nodes: 5, times: 2, faults: 9, rate: 800, only: "x", keep: true, verbose: true}
	if err != nil || s != want || !slices.Equal(names, []string{"mix", "clock"}) {
		t.Errorf("settings %+v, names %v, error: %v; want the given values, and the names mix and clock", s, names, err)
	}
	s, _, err = parse([]string{"all", "-bars", "-ops", "5"})
	if want := (settings{seed: s.seed, nodes: 3, bars: true, faults: barFaults, ops: 5, rate: barRate}); err != nil || s != want {
		t.Errorf("with -bars and -ops 5: settings %+v, error: %v; want the other sizes that the bars require", s, err)
	}
	first, _, err1 := parse(nil)
	second, _, err2 := parse(nil)
	if err1 != nil || err2 != nil || first.seed == second.seed {
		t.Errorf("without -seed, two runs have the seeds %d and %d, want different seeds; errors: %v, %v", first.seed, second.seed, err1, err2)
	}
	for _, args := range [][]string{{"-nodes", "0"}, {"-rate", "0"}, {"mix", "-for", "soon"}} {
		if _, _, err := parse(args); err == nil {
			t.Errorf("arguments %v: no error, want one", args)
		}
	}
}

func TestChoose(t *testing.T) {
	for _, tt := range []struct {
		names []string
		want  int // number of scenarios; 0 means an error
	}{
		{nil, 0}, {[]string{"nonsense"}, 0}, {[]string{"mix", "nonsense"}, 0}, {[]string{"mix", "clock"}, 2}, {[]string{"all"}, len(scenarios())},
	} {
		chosen, err := choose(tt.names)
		if len(chosen) < tt.want || (err != nil) != (tt.want == 0) {
			t.Errorf("names %v: %d scenarios, error: %v; want the number of the case, or an error if that number is 0", tt.names, len(chosen), err)
		}
	}
	text, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scenarios() {
		if !regexp.MustCompile(`(?m)^//\tchaos ` + s.name + ` `).Match(text) {
			t.Errorf("the comment at the top of main.go does not list %s", s.name)
		}
	}
}

// TestEachBug checks that hunts returns a hunt for each deliberate bug, and that docs/mutants.md
// lists each of them.
func TestEachBug(t *testing.T) {
	source, err := os.ReadFile("../../internal/failpoint/failpoint.go")
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile("../../docs/mutants.md")
	if err != nil {
		t.Fatal(err)
	}
	hunted := map[failpoint.Bug]bool{}
	for _, h := range hunts() {
		hunted[h.bug] = true
	}
	bugs := regexp.MustCompile(`Bug = "([^"]+)"`).FindAllSubmatch(source, -1)
	if len(bugs) != len(hunted) || len(bugs) < 11 {
		t.Errorf("%d bugs in failpoint.go, %d in hunts: want equal numbers, and at least 11", len(bugs), len(hunted))
	}
	for _, b := range bugs {
		name := string(b[1])
		if !hunted[failpoint.Bug(name)] || !strings.Contains(string(list), "| `"+name+"` |") {
			t.Errorf("bug %s: in hunts: %t; it must be in hunts and in docs/mutants.md", name, hunted[failpoint.Bug(name)])
		}
	}
}
