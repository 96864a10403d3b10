package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
)

// pauses are the fields of INFO that tell the longest time that a decision may have had to
// wait for work of each kind.
var pauses = []string{"growth", "compaction", "eviction", "sweep", "snapshot", "gc"}

// longestPauses has a server do, under full load and with ten million keys, all that can make
// a decision wait: grow, expire, compact, evict and save. It has a core to itself, since the
// longest wait would otherwise be the one for the load to leave the processor.
func longestPauses(_ settings, b *board) (err error) {
	last := runtime.NumCPU() - 1
	if last == 0 {
		return errors.New("the longest pauses take a machine with two cores to measure")
	}
	if err := confine(fmt.Sprintf("0-%d", last-1)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, confine(fmt.Sprintf("0-%d", last))) }()
	p, err := startUnder([]string{"taskset", "-c", strconv.Itoa(last)})
	if err != nil {
		return err
	}
	return errors.Join(provoke(p.addr), showPauses(p.addr, b), p.stop())
}

// confine lets this process run on some cores only.
func confine(cores string) error {
	out, err := exec.Command("taskset", "-a", "-p", "-c", cores, strconv.Itoa(os.Getpid())).CombinedOutput()
	if err != nil {
		return fmt.Errorf("taskset: %w\n%s", err, out)
	}
	return nil
}

func provoke(addr string) error {
	steps := []struct {
		command string // before the keys
		prefix  string
		limit   string
	}{
		{"PING", "a:", "9 1 86400"},
		{"BGSAVE", "b:", "9 10 1"},   // expire soon
		{"PING", "c:", "9 1 864000"}, // take their place
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
		b.atMost(fmt.Sprintf("longest pause by %s at 10 M keys", name), usec/1000, 2, "ms")
	}
	return nil
}
