package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

const (
	maxSave  = 6 * time.Second
	maxLoad  = 6 * time.Second
	maxReady = time.Second
	saveTime = 8 * time.Second // duration of a load with or without saves
)

// snapshots saves and loads many keys, and measures latencies during saves.
func snapshots(s settings, b *board) error {
	return withGenerator(func(g generator) error {
		return errors.Join(
			restart(manyKeys, maxLoad, b, func(p *process) error { return serveAndSave(p, g, s, b) }),
			restart(manyKeys/10, maxReady, b, func(*process) error { return nil }),
		)
	})
}

// restart fills a server with n keys, saves them, and calls the function between. Then it stops
// the server, and measures the time until a new server is ready with the same keys.
func restart(n int, bar time.Duration, b *board, between func(p *process) error) error {
	dir, err := os.MkdirTemp("", "throttled-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	in := []string{"--dir", dir}
	err = withServer(in, func(p *process) error {
		if err := fillAll(p.addr, keyspace{"m:", 16, 0, n}, roomy); err != nil {
			return err
		}
		begin := time.Now()
		if _, err := command(p.addr, "SAVE"); err != nil {
			return err
		}
		took := time.Since(begin)
		info, err := os.Stat(filepath.Join(dir, "dump.thr"))
		if err != nil {
			return err
		}
		b.note("%d keys: a snapshot of %.0f MiB", n, mib(info.Size()))
		if n == manyKeys {
			b.atMost("save 10 M keys", took.Seconds(), maxSave.Seconds(), "s")
		}
		return between(p)
	})
	if err != nil {
		return err
	}
	return withServer(in, func(p *process) error {
		b.atMost(fmt.Sprintf("start until ready with %d keys", n), p.took.Seconds(), bar.Seconds(), "s")
		keys, err := infoField(p.addr, "persistence", "rdb_last_load_keys_loaded")
		if err == nil && keys != strconv.Itoa(n) {
			err = fmt.Errorf("%s of %d keys loaded", keys, n)
		}
		return err
	})
}

// serveAndSave compares latencies with and without consecutive saves.
func serveAndSave(p *process, g generator, s settings, b *board) error {
	var quiet, saving []latencies
	for range s.rounds {
		l, err := g.run(p.addr, manyKeys, saveTime, b)
		if err != nil {
			return err
		}
		quiet = append(quiet, l)
		if l, err = serveWhileSaving(p, g, b); err != nil {
			return err
		}
		saving = append(saving, l)
	}
	b.latencies("10 M keys, no save", quiet)
	b.latencies("10 M keys, continuous saves", saving)
	b.atMost("p99 while saving, ratio to p99 without saves", middle(saving).p99/middle(quiet).p99, 2, "x")
	return nil
}

func serveWhileSaving(p *process, g generator, b *board) (l latencies, err error) {
	done := make(chan struct{})
	saver := make(chan error, 1)
	go func() { saver <- saveUntil(p.addr, done) }()
	l, err = g.run(p.addr, manyKeys, saveTime, b)
	close(done)
	return l, errors.Join(err, <-saver)
}

// saveUntil starts background saves one after the other. It polls rarely, since the cost
// of polling would distort the measurement of the saves.
func saveUntil(addr string, done <-chan struct{}) error {
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for {
		running, err := infoField(addr, "persistence", "rdb_bgsave_in_progress")
		if err == nil && running == "0" {
			_, err = command(addr, "BGSAVE")
		}
		if err != nil {
			return err
		}
		select {
		case <-done:
			return nil
		case <-ticker.C:
		}
	}
}
