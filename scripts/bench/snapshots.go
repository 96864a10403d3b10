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
	saveTime = 15 * time.Second // of serving with and without saves
)

// snapshots saves and loads many keys, and looks how serving is meanwhile.
func snapshots(_ settings, b *board) error {
	return withGenerator(func(g generator) error {
		return errors.Join(
			restart(manyKeys, maxLoad, b, func(p *process) error { return serveAndSave(p, g, b) }),
			restart(manyKeys/10, maxReady, b, func(*process) error { return nil }),
		)
	})
}

// restart fills a server, saves, and measures how long another takes until it is ready with
// the same keys.
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
		keys, err := infoField(p.addr, "rdb_last_load_keys_loaded")
		if err == nil && keys != strconv.Itoa(n) {
			err = fmt.Errorf("%s of %d keys were loaded", keys, n)
		}
		return err
	})
}

// serveAndSave compares latencies with and without snapshots being written all the time.
func serveAndSave(p *process, g generator, b *board) error {
	quiet, err := g.run(p.addr, manyKeys, tailRate, saveTime, "-key-size", "16")
	if err != nil {
		return err
	}
	done := make(chan struct{})
	saver := make(chan error, 1)
	saves := 0
	go func() {
		for {
			select {
			case <-done:
				saver <- nil
				return
			default:
			}
			if err := saveOnce(p.addr); err != nil {
				saver <- err
				return
			}
			saves++
		}
	}()
	saving, err := g.run(p.addr, manyKeys, tailRate, saveTime, "-key-size", "16")
	close(done)
	if err := errors.Join(err, <-saver); err != nil {
		return err
	}
	b.note("%d req/s on 10 M keys:   p50 %.3f p99 %.3f p99.9 %.3f max %.3f ms", tailRate, quiet.p50, quiet.p99, quiet.p999, quiet.max)
	b.note("during %2d saves on end: p50 %.3f p99 %.3f p99.9 %.3f max %.3f ms", saves, saving.p50, saving.p99, saving.p999, saving.max)
	b.atMost("p99 while saving, of that without", saving.p99/quiet.p99, 2, "x")
	return nil
}

// saveOnce begins a background save and waits for its end.
func saveOnce(addr string) error {
	if _, err := command(addr, "BGSAVE"); err != nil {
		return err
	}
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for range ticker.C {
		running, err := infoField(addr, "rdb_bgsave_in_progress")
		if err != nil || running == "0" {
			return err
		}
	}
	return nil
}
