package main

import (
	"fmt"
	"os/exec"
	"runtime"
)

// inProcessBar is the longest time of a decision of the client package with units in hand, in nanoseconds.
const inProcessBar = 500

// inProcess measures decisions of the client package in one goroutine, and in one for each processor, all on one key: the
// best of three runs. The benchmark of all processors reports the time between decisions, in which each of them makes a part
// of one.
func inProcess(b *board) error {
	out, err := exec.Command("go", "test", "-C", "client", "-run", "^$", "-bench", "^BenchmarkAllow", "-count", "3", ".").CombinedOutput()
	if err != nil {
		return fmt.Errorf("go test: %w\n%s", err, out)
	}
	figures, err := parseBenchmarks(string(out))
	if err != nil {
		return err
	}
	for _, row := range []struct {
		benchmark, text string
		goroutines      int
	}{
		{"Allow", "client package: a decision, one goroutine", 1},
		{"Allow_Parallel", "client package: a decision, all processors", runtime.GOMAXPROCS(0)},
	} {
		if figures[row.benchmark].ns == 0 {
			return fmt.Errorf("the client package has no Benchmark%s:\n%s", row.benchmark, out)
		}
		b.atMost(row.text, figures[row.benchmark].ns*float64(row.goroutines), inProcessBar, "ns")
	}
	return nil
}
