package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// generator is the load generator of this repository.
type generator struct {
	binary  string
	wrapper []string // command that runs the generator as its argument, or nil
}

// command returns a run of the generator.
func (g generator) command(args ...string) *exec.Cmd {
	line := append(append(slices.Clone(g.wrapper), g.binary), args...)
	return exec.Command(line[0], line[1:]...)
}

func buildGenerator(dir string) (generator, error) {
	g := generator{binary: filepath.Join(dir, "throttled-bench")}
	build := exec.Command("go", "build", "-C", "cmd/throttled-bench", "-o", g.binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		return g, fmt.Errorf("build the load generator: %w\n%s", err, out)
	}
	return g, nil
}

// withGenerator builds the load generator, calls use, and removes the generator.
func withGenerator(use func(g generator) error) error {
	dir, err := os.MkdirTemp("", "throttled-bench-")
	if err != nil {
		return err
	}
	g, err := buildGenerator(dir)
	if err == nil {
		err = use(g)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// latencies holds percentiles in milliseconds.
type latencies struct {
	p50, p99, p999, max float64
	late                float64 // largest delay of the generator itself
}

// servedRate is a rate in requests per second, well below the capacity of one core.
const servedRate = 20_000

// If the generator sends a request later than scheduled by more than tooLate, the whole machine was
// stalled and the run is not meaningful. Such a run is repeated. There are at most maxTries runs.
const (
	tooLate  = 10 // ms; a concurrent save delays the generator by about 4 ms
	maxTries = 6
)

// run sends CL.THROTTLE at a fixed rate. fillAll must have created the keys with the
// prefix "m:" and a size of 16 bytes. Latencies count from the scheduled time of a request. A
// run on a stalled machine is repeated, and the repetition is printed.
func (g generator) run(addr string, keys int, lasting time.Duration, b *board) (latencies, error) {
	for try := 1; ; try++ {
		l, err := g.runOnce(addr, keys, lasting)
		if err != nil || l.late <= tooLate || try == maxTries {
			return l, err
		}
		b.note("repeated: the generator was %.0f ms late", l.late)
	}
}

func (g generator) runOnce(addr string, keys int, lasting time.Duration) (latencies, error) {
	return g.openLoop(addr, servedRate, lasting, "-keys", strconv.Itoa(keys), "-key-size", "16", "-prefix", "m:", "-limit", roomy)
}

// openLoop sends requests at a fixed rate, over eight connections. The further arguments of the generator define the requests.
func (g generator) openLoop(addr string, rate int, lasting time.Duration, args ...string) (latencies, error) {
	all := append([]string{
		"-output", "json", "-progress=false", "-threads", "1", "-conns", strconv.Itoa(loadConns), "-depth", "1",
		"-rate", strconv.Itoa(rate), "-duration", lasting.String(), "-warmup", "1s",
	}, args...)
	out, err := g.command(append(all, addr)...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return latencies{}, fmt.Errorf("load generator: %w\n%s", err, exit.Stderr)
	} else if err != nil {
		return latencies{}, err
	}
	return parseLatencies(out)
}

func parseLatencies(report []byte) (latencies, error) {
	f, err := parseFigures(report)
	if err != nil {
		return latencies{}, err
	}
	return latencies{
		p50:  f["latency_p50_us"] / 1000,
		p99:  f["latency_p99_us"] / 1000,
		p999: f["latency_p99_9_us"] / 1000,
		max:  f["latency_max_us"] / 1000,
		late: f["sent_late_max_us"] / 1000,
	}, nil
}

// parseFigures parses the report of a run with one target and no errors.
func parseFigures(report []byte) (map[string]float64, error) {
	var r struct {
		Targets []struct {
			Figures map[string]float64 `json:"figures"`
		} `json:"targets"`
	}
	if err := json.Unmarshal(report, &r); err != nil {
		return nil, fmt.Errorf("report of the load generator: %w", err)
	}
	if len(r.Targets) != 1 {
		return nil, fmt.Errorf("the load generator reports %d targets", len(r.Targets))
	}
	f := r.Targets[0].Figures
	if f["replies"] == 0 || f["errors"] > 0 {
		return nil, fmt.Errorf("%v replies and %v errors", f["replies"], f["errors"])
	}
	return f, nil
}

// middle returns the medians of several runs. Single runs are not reliable on a shared machine.
func middle(runs []latencies) latencies {
	return latencies{
		p50:  median(runs, func(l latencies) float64 { return l.p50 }),
		p99:  median(runs, func(l latencies) float64 { return l.p99 }),
		p999: median(runs, func(l latencies) float64 { return l.p999 }),
		max:  median(runs, func(l latencies) float64 { return l.max }),
		late: median(runs, func(l latencies) float64 { return l.late }),
	}
}

// latencies prints the medians of several runs.
func (b *board) latencies(what string, runs []latencies) {
	l := middle(runs)
	b.note("%-28s %d req/s: p50 %.3f p99 %.3f p99.9 %.3f max %.3f ms, sent up to %.1f ms late (medians of %d)", what, servedRate, l.p50, l.p99, l.p999, l.max, l.late, len(runs))
}

// infoField returns a field of a section of INFO.
func infoField(addr, section, name string) (string, error) {
	text, err := command(addr, "INFO "+section)
	if err != nil {
		return "", err
	}
	return infoLine(text, name)
}

// infoLine returns a field of a reply to INFO.
func infoLine(text, name string) (string, error) {
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("INFO has no %s", name)
}

// infoInt returns a number of a reply to INFO.
func infoInt(text, name string) (int, error) {
	value, err := infoLine(text, name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(value)
}
