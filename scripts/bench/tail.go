package main

import (
	"errors"
	"strconv"
	"time"
)

const (
	fewKeys  = 10_000
	tailRate = 20_000 // requests a second: well below what one core serves
	tailTime = 20 * time.Second
)

// tail compares latencies at few and at many keys.
func tail(_ settings, b *board) error {
	return withGenerator(func(g generator) error {
		few, err := tailAt(g, fewKeys, b)
		if err != nil {
			return err
		}
		many, err := tailAt(g, manyKeys, b)
		if err != nil {
			return err
		}
		b.atMost("p99.9 at 10 M keys, of that at 10 k keys", many.p999/few.p999, 2, "x")
		return nil
	})
}

func tailAt(g generator, n int, b *board) (l latencies, err error) {
	err = withServer(nil, func(p *process) error {
		if err := fillAll(p.addr, keyspace{"m:", 16, 0, n}, roomy); err != nil {
			return err
		}
		l, err = g.run(p.addr, n, tailRate, tailTime, "-key-size", "16")
		b.note("%8d keys, %d req/s: p50 %.3f p99 %.3f p99.9 %.3f max %.3f ms", n, tailRate, l.p50, l.p99, l.p999, l.max)
		return err
	})
	return l, err
}

const (
	briefKeys  = 5_000_000
	sweepBound = 2 * time.Second // for keys that have expired to be gone
)

// expiry has millions of keys expire within the seconds that it took to make them, and looks
// how serving is meanwhile, and how soon they are gone.
func expiry(_ settings, b *board) error {
	return withGenerator(func(g generator) error {
		return withServer(nil, func(p *process) error { return expireUnder(p, g, b) })
	})
}

func expireUnder(p *process, g generator, b *board) error {
	if err := fillAll(p.addr, keyspace{"m:", 16, 0, fewKeys}, roomy); err != nil {
		return err
	}
	quiet, err := g.run(p.addr, fewKeys, tailRate, 10*time.Second, "-key-size", "16")
	if err != nil {
		return err
	}
	if err := fillAll(p.addr, keyspace{"brief:", 16, 0, briefKeys}, "0 1 8"); err != nil {
		return err
	}
	last := time.Now().Add(8 * time.Second)
	gone := make(chan time.Time, 1)
	failed := make(chan error, 1)
	go func() {
		at, err := awaitKeys(p.addr, fewKeys)
		gone <- at
		failed <- err
	}()
	during, err := g.run(p.addr, fewKeys, tailRate, 10*time.Second, "-key-size", "16")
	at := <-gone
	if err := errors.Join(err, <-failed); err != nil {
		return err
	}
	b.note("quiet:                      p50 %.3f p99 %.3f p99.9 %.3f max %.3f ms", quiet.p50, quiet.p99, quiet.p999, quiet.max)
	b.note("while %d keys expire:  p50 %.3f p99 %.3f p99.9 %.3f max %.3f ms", briefKeys, during.p50, during.p99, during.p999, during.max)
	b.atMost("p99.9 while millions expire, of that without", during.p999/quiet.p999, 3, "x")
	b.atMost("expired keys are gone after", at.Sub(last).Seconds(), sweepBound.Seconds(), "s")
	return nil
}

// awaitKeys waits until a server holds no more than so many keys.
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
