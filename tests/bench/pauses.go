package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// works lists the kinds of work that BenchmarkPauses measures.
var works = []string{"grow-index", "grow-arena", "compact", "evict", "reclaim", "sweep", "copy"}

// pauses lists the kinds of work for which INFO reports the longest delay of a decision.
var pauses = []string{"growth", "compaction", "eviction", "sweep", "snapshot", "gc"}

// longestPauses makes a server with ten million keys do all work that can delay a decision
// under full load: grow, expire, compact, evict and save. The server has its own core,
// since the longest delay would otherwise be the wait for a processor. The bars are for
// wall-clock time, the time that a caller waits. The figures below the bars help to
// explain a missed bar: the time that the system takes to allocate memory, and the
// processor time of each kind of work.
func longestPauses(_ settings, b *board) (err error) {
	last := runtime.NumCPU() - 1
	if last == 0 {
		return errors.New("the measurement of the longest pauses requires two cores")
	}
	if err := confine(fmt.Sprintf("0-%d", last-1)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, confine(fmt.Sprintf("0-%d", last))) }()
	p, err := startUnder([]string{"taskset", "-c", strconv.Itoa(last)})
	if err != nil {
		return err
	}
	return errors.Join(provoke(p.addr), showPauses(p.addr, b), p.stop(), showFirstTouch(b), showWorks(b))
}

// showWorks prints the processor time of each kind of work on the slowest shard of a table with ten
// million keys, in the best and in the worst of three runs. The processor time includes the time
// that the system takes to allocate memory.
func showWorks(b *board) error {
	out, err := exec.Command("go", "test", "-run", "^$", "-bench", "^BenchmarkPauses$", "-benchtime", "1x", "-count", "3", "./buckets").CombinedOutput()
	if err != nil {
		return fmt.Errorf("go test: %w\n%s", err, out)
	}
	figures, err := parseBenchmarks(string(out))
	if err != nil {
		return err
	}
	for _, name := range works {
		if len(figures["Pauses"].us[name]) == 0 {
			return fmt.Errorf("BenchmarkPauses does not report %s", name)
		}
		b.note("longest %-10s %.2f ms of processor time in the best run, %.2f in the worst",
			name, slices.Min(figures["Pauses"].us[name])/1000, slices.Max(figures["Pauses"].us[name])/1000)
	}
	return nil
}

// touchBytes is the approximate amount of memory that is allocated when a shard grows.
// touchTimes is the number of measurements.
const (
	touchBytes = 256 << 10
	touchTimes = 4000
)

// showFirstTouch measures, independently of the server, how long the system takes to
// provide fresh memory. Growing a shard waits for that memory.
func showFirstTouch(b *board) error {
	took := make([]time.Duration, touchTimes)
	for i := range took {
		begin := time.Now()
		fresh, err := syscall.Mmap(-1, 0, touchBytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil {
			return err
		}
		defer func() { _ = syscall.Munmap(fresh) }()
		for at := 0; at < touchBytes; at += os.Getpagesize() {
			fresh[at] = 1
		}
		took[i] = time.Since(begin)
	}
	slices.Sort(took)
	b.note("allocation of 256 KiB by the system: p50 %v p99.9 %v max %v", took[touchTimes/2], took[touchTimes*999/1000], took[touchTimes-1])
	return nil
}

// confine restricts this process to some cores.
func confine(cores string) error {
	out, err := exec.Command("taskset", "-a", "-p", "-c", cores, strconv.Itoa(os.Getpid())).CombinedOutput()
	if err != nil {
		return fmt.Errorf("taskset: %w\n%s", err, out)
	}
	return nil
}

func provoke(addr string) error {
	steps := []struct {
		command string // command sent before the keys
		prefix  string
		limit   string
	}{
		{"PING", "a:", "9 1 86400"},
		{"BGSAVE", "b:", "9 10 1"},   // the keys of this step expire soon
		{"PING", "c:", "9 1 864000"}, // the keys of this step replace the expired keys
		{"CONFIG SET maxmemory 400mb maxmemory-policy evict-smallest-debt", "d:", "9 1 864000"},
	}
	keys := keyspace{size: 16, to: manyKeys}
	for _, step := range steps {
		if _, err := command(addr, step.command); err != nil {
			return err
		}
		keys.prefix = step.prefix
		if err := fillAll(addr, keys, step.limit); err != nil {
			return err
		}
		keys.to = manyKeys / 2
	}
	return nil
}

func showPauses(addr string, b *board) error {
	for _, name := range pauses {
		text, err := infoField(addr, "stats", "longest_"+name+"_usec")
		if err != nil {
			return err
		}
		usec, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return err
		}
		b.atMost("longest pause by "+name+" at 10 M keys", usec/1000, 2, "ms")
	}
	return nil
}
