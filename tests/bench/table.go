package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// The bars of the table: the time of a decision on one core, and the speedup of two cores.
const (
	maxDecide1M  = 150 // ns
	maxDecide10M = 250
	minTwoCores  = 1.7
)

// table runs the benchmarks of package buckets and compares the decisions of a pipeline with their
// bars. It uses the best of three runs, since other load can only add time. BenchmarkWait measures
// the time of one random access to as much memory as a million keys occupy.
func table(_ settings, b *board) error {
	out, err := exec.Command("go", "test", "-run", "^$", "-bench", "^(BenchmarkDecideBatch|BenchmarkWait|BenchmarkCores)$", "-benchmem", "-count", "3", "-cpu", "2", "./buckets").CombinedOutput()
	if err != nil {
		return fmt.Errorf("go test: %w\n%s", err, out)
	}
	figures, err := parseBenchmarks(string(out))
	if err != nil {
		return err
	}
	b.note("one random access to the memory of a million keys: %.0f ns", figures["Wait"].ns)
	b.note("pure arithmetic on two cores: %.2f x the speed of one", figures["Cores/one"].ns/figures["Cores/one-parallel"].ns)
	for _, keys := range []string{"1M", "10M"} {
		for _, size := range []string{"1", "4", "16", "64"} {
			one, two := figures["DecideBatch/"+keys+"/"+size], figures["DecideBatch/"+keys+"/"+size+"-parallel"]
			b.note("%3s keys, pipeline of %2s: %4.0f ns per decision, on two cores %.2f x as many; %.0f allocations", keys, size, one.ns, one.ns/two.ns, one.allocs)
		}
	}
	b.atMost("decide and store, 1 M keys, pipeline of 16", figures["DecideBatch/1M/16"].ns, maxDecide1M, "ns")
	b.atMost("decide and store, 10 M keys, pipeline of 16", figures["DecideBatch/10M/16"].ns, maxDecide10M, "ns")
	b.atLeast("two cores, ratio to one, 1 M keys, pipeline of 16", figures["DecideBatch/1M/16"].ns/figures["DecideBatch/1M/16-parallel"].ns, minTwoCores, "x")
	b.atMost("allocations per decision", figures["DecideBatch/1M/16"].allocs, 0, "")
	return nil
}

// benchmark is the result of a benchmark. The ns field is the time per decision if the
// benchmark reports it, and otherwise the time per operation.
type benchmark struct {
	ns, allocs float64
	us         map[string][]float64 // by name, the values of the metric "us-" + name, one for each run
}

// better returns the faster of two runs, with the us metrics of both runs. The first run may be
// the zero benchmark.
func better(a, b benchmark) benchmark {
	if a.us == nil {
		return b
	}
	for name, us := range a.us {
		b.us[name] = append(us, b.us[name]...)
	}
	if a.ns < b.ns {
		b.ns, b.allocs = a.ns, a.allocs
	}
	return b
}

var benchmarkLine = regexp.MustCompile(`(?m)^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.*)$`) // on one core, the name has no suffix with the number of cores

func parseBenchmarks(out string) (map[string]benchmark, error) {
	found := map[string]benchmark{}
	for _, line := range benchmarkLine.FindAllStringSubmatch(out, -1) {
		b := benchmark{us: map[string][]float64{}}
		fields := strings.Fields(line[2])
		for i := 0; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("benchmark %s: %w", line[1], err)
			}
			if name, is := strings.CutPrefix(fields[i+1], "us-"); is {
				b.us[name] = []float64{value}
			}
			switch fields[i+1] {
			case "ns/op":
				b.ns = value
			case "ns/decision":
				b.ns = value // overwrites ns/op, which precedes it in the line
			case "allocs/op":
				b.allocs = value
			}
		}
		found[line[1]] = better(found[line[1]], b)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no benchmarks in %q", out)
	}
	return found, nil
}
