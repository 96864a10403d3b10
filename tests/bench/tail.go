package main

import (
	"errors"
	"strconv"
	"time"
)

const (
	fewKeys  = 10_000
	tailTime = 10 * time.Second
)

// tail compares the latencies of a server with few keys and a server with many keys. The rounds
// alternate between the servers.
func tail(s settings, b *board) error {
	return withGenerator(func(g generator) error {
		return withServer(nil, func(few *process) error {
			return withServer(nil, func(many *process) error { return compareTails(few, many, g, s, b) })
		})
	})
}

func compareTails(few, many *process, g generator, s settings, b *board) error {
	targets := []struct {
		p    *process
		keys int
	}{{few, fewKeys}, {many, manyKeys}}
	var runs [2][]latencies
	for round := range s.rounds {
		for i, t := range targets {
			if round == 0 {
				if err := fillAll(t.p.addr, keyspace{"m:", 16, 0, t.keys}, roomy); err != nil {
					return err
				}
			}
			l, err := g.run(t.p.addr, t.keys, tailTime, b)
			if err != nil {
				return err
			}
			runs[i] = append(runs[i], l)
		}
	}
	b.latencies("10 k keys", runs[0])
	b.latencies("10 M keys", runs[1])
	b.atMost("p99.9 at 10 M keys, ratio to 10 k keys", middle(runs[1]).p999/middle(runs[0]).p999, 2, "x")
	return nil
}

const (
	briefKeys  = 5_000_000
	sweepBound = 2 * time.Second // bar of the time until expired keys are removed
)

// expiry creates millions of keys, which expire over a period as long as the time in which they
// were created. It measures latencies during the expiry, and the time until the keys are removed.
func expiry(s settings, b *board) error {
	return withGenerator(func(g generator) error {
		return withServer(nil, func(p *process) error { return expireOften(p, g, s, b) })
	})
}

func expireOften(p *process, g generator, s settings, b *board) error {
	if err := fillAll(p.addr, keyspace{"m:", 16, 0, fewKeys}, roomy); err != nil {
		return err
	}
	var quiet, during []latencies
	var gone time.Duration
	for range s.rounds {
		l, err := g.run(p.addr, fewKeys, tailTime, b)
		if err != nil {
			return err
		}
		quiet = append(quiet, l)
		l, after, err := expireUnder(p, g, b)
		if err != nil {
			return err
		}
		during, gone = append(during, l), max(gone, after)
	}
	b.latencies("before", quiet)
	b.latencies("while 5 M keys expire", during)
	b.atMost("p99.9 during expiry, ratio to p99.9 before", middle(during).p999/middle(quiet).p999, 3, "x")
	b.atMost("time until expired keys are removed", gone.Seconds(), sweepBound.Seconds(), "s")
	return nil
}

// expireUnder creates keys and measures latencies under load while they expire. It repeats this
// if the machine was stalled. It returns the latencies, and the time from the expiry of the last
// key until all keys are removed.
func expireUnder(p *process, g generator, b *board) (l latencies, after time.Duration, err error) {
	for try := 1; ; try++ {
		l, after, err = expireOnce(p, g)
		if err != nil || l.late <= tooLate || try == maxTries {
			return l, after, err
		}
		b.note("repeated: the generator was %.0f ms late; p99.9 was %.3f ms", l.late, l.p999)
	}
}

func expireOnce(p *process, g generator) (l latencies, after time.Duration, err error) {
	if err := fillAll(p.addr, keyspace{"brief:", 16, 0, briefKeys}, "0 1 8"); err != nil {
		return l, 0, err
	}
	last := time.Now().Add(8 * time.Second)
	gone := make(chan time.Time, 1)
	failed := make(chan error, 1)
	go func() {
		at, err := awaitKeys(p.addr, fewKeys)
		gone <- at
		failed <- err
	}()
	l, err = g.runOnce(p.addr, fewKeys, tailTime)
	at := <-gone
	return l, at.Sub(last), errors.Join(err, <-failed)
}

// awaitKeys waits until a server holds at most n keys.
func awaitKeys(addr string, n int) (time.Time, error) {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for now := range ticker.C {
		text, err := command(addr, "DBSIZE")
		if err != nil {
			return now, err
		}
		if keys, err := strconv.Atoi(text); err != nil || keys <= n {
			return now, err
		}
	}
	return time.Time{}, nil
}
