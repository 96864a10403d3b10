package main

import (
	"errors"
	"fmt"
	"os/exec"
	"strconv"
)

// relative is a limiter command. Its bar is the largest permitted ratio of its cost to the cost of
// CL.THROTTLE.
type relative struct {
	name    string
	command string  // in the syntax of throttled-bench
	bar     float64 // ratio of server CPU per request; 0: no bar
}

// family lists the limiter commands. The first command is the reference for the others. The limits
// are so high that every request is admitted and must be stored, and units are restored so
// slowly that the keys stay in use.
var family = []relative{
	{"CL.THROTTLE", "CL.THROTTLE throttle:{key} 99999 1 60", 0},
	{"CL.WINDOW SLIDING", "CL.WINDOW sliding:{key} 1000000 1h", 1.3},
	{"CL.WINDOW FIXED", "CL.WINDOW fixed:{key} 1000000 1h FIXED", 0},
	{"CL.WINDOW BUCKETS 10", "CL.WINDOW buckets:{key} 1000000 1h BUCKETS 10", 0},
	{"CL.WINDOW LOG", "CL.WINDOW log:{key} 1000000 1h LOG", 0},
	{"CL.BUCKET", "CL.BUCKET bucket:{key} 1000000 1 60", 1.3},
	{"CL.LEAKY", "CL.LEAKY leaky:{key} 100000 1 60", 0},
	{"CL.ALL, three CL.THROTTLE", "CL.ALL 1 THROTTLE second:{key} 99999 1 60 THROTTLE minute:{key} 99999 1 1h THROTTLE day:{key} 9999 1 1d", 2.2},
	{"CL.ALL, three algorithms", "CL.ALL 1 THROTTLE second:{key} 99999 1 60 WINDOW sliding:{key} 1000000 1h BUCKET bucket:{key} 1000000 1 60", 2.2},
}

// familyDepths lists the pipeline depths of the measurement. The numbers of requests are large
// enough to measure CPU times, which have a resolution of 10 ms.
var familyDepths = []struct{ pipeline, requests int }{{1, 200_000}, {16, 1_500_000}, {100, 3_000_000}}

// familyKeys is the number of keys of each command.
const familyKeys = 100_000

// compareFamily measures the cost of each limiter command. The rounds alternate between
// the commands, so that temporary load on the machine does not affect only one of them.
func compareFamily(s settings, b *board) error {
	return withGenerator(func(g generator) error {
		return withServer(nil, func(p *process) error {
			b.note("server CPU per request; %d keys, %d connections, median of %d rounds", familyKeys, s.conns, s.rounds)
			for _, d := range familyDepths {
				costs, err := g.costs(p.addr, family, d.pipeline, d.requests, s)
				if err != nil {
					return err
				}
				showFamily(d.pipeline, costs, b)
			}
			return nil
		})
	})
}

func showFamily(pipeline int, costs []float64, b *board) {
	for i, r := range family {
		if r.bar == 0 {
			b.note("depth %3d %-30s %6.3f us, %.2f x CL.THROTTLE", pipeline, r.name, costs[i], costs[i]/costs[0])
		} else {
			b.atMost(fmt.Sprintf("depth %3d %s", pipeline, r.name), costs[i]/costs[0], r.bar, "x")
		}
	}
}

// costs returns the median CPU microseconds per request of each command.
func (g generator) costs(addr string, family []relative, pipeline, requests int, s settings) ([]float64, error) {
	rounds := make([][]float64, len(family))
	for range s.rounds {
		for i, r := range family {
			cost, err := g.cost(addr, r.command, pipeline, requests, s.conns)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.name, err)
			}
			rounds[i] = append(rounds[i], cost)
		}
	}
	costs := make([]float64, len(family))
	for i := range rounds {
		costs[i] = median(rounds[i], func(us float64) float64 { return us })
	}
	return costs, nil
}

func (g generator) cost(addr, command string, pipeline, requests, conns int) (float64, error) {
	out, err := exec.Command(g.binary,
		"-output", "json", "-progress=false", "-command", command, "-keys", strconv.Itoa(familyKeys),
		"-depth", strconv.Itoa(pipeline), "-conns", strconv.Itoa(conns), "-requests", strconv.Itoa(requests), "-warmup", "200ms",
		addr).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return 0, fmt.Errorf("load generator: %w\n%s", err, exit.Stderr)
	} else if err != nil {
		return 0, err
	}
	f, err := parseFigures(out)
	if err != nil {
		return 0, err
	}
	if f["denied_share"] > 0 {
		return 0, errors.New("some requests were denied and therefore not stored")
	}
	return f["server_cpu_us_per_reply"], nil
}
