package main

import (
	"errors"
	"fmt"
)

const (
	manyKeys    = 10_000_000
	peerKeys    = 1_000_000
	maxPer16    = 64  // bytes of RSS for a key of 16 bytes
	maxBeside40 = 48  // and for one of 40 bytes, beside those 40
	floodLimit  = 256 // MiB of maxmemory
	floodKeys   = 20_000_000
	exhausted   = 100_000 // keys that are used up before the flood
	longKeys    = 20_000  // keys that are flooded in at last, each of which takes the room of thousands
	longKey     = 30_000  // bytes
)

// memory fills servers with keys and shows what they take: of throttled all that it has, of
// a peer what the keys have added.
func memory(s settings, b *board) error {
	if s.peer != "" {
		before, err := residentOf(s.peer)
		if err != nil {
			return err
		}
		after, err := residentFilled(s.peer, peerKeys, 16)
		if err != nil {
			return err
		}
		b.note("%s: %.1f bytes of RSS for a key of 16 bytes, at %d keys", s.peer, float64(after-before)/peerKeys, peerKeys)
	}
	for _, bar := range []struct {
		size  int
		bytes float64
	}{{16, maxPer16}, {40, 40 + maxBeside40}} {
		if err := withServer(nil, func(p *process) error {
			rss, err := residentFilled(p.addr, manyKeys, bar.size)
			b.atMost(fmt.Sprintf("RSS for each of 10 M keys of %d bytes", bar.size), float64(rss)/manyKeys, bar.bytes, "bytes")
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// withServer starts a server, and stops it when use is done with it.
func withServer(args []string, use func(p *process) error) error {
	p, err := startServer(args...)
	if err != nil {
		return err
	}
	return errors.Join(use(p), p.stop())
}

func residentOf(addr string) (int64, error) {
	pid, err := pidOf(addr)
	if err != nil {
		return 0, err
	}
	return residentBytes(pid)
}

// residentFilled returns the memory of a server that it has filled with keys.
func residentFilled(addr string, n, size int) (int64, error) {
	if err := fillAll(addr, keyspace{"m:", size, 0, n}, never); err != nil {
		return 0, err
	}
	return residentOf(addr)
}

// flood uses keys up, floods the server with others far beyond its memory limit, and looks
// whether it stayed within bounds and still knows them.
func flood(_ settings, b *board) error {
	for _, policy := range []string{"noeviction", "evict-smallest-debt"} {
		args := []string{"--maxmemory", fmt.Sprintf("%dmb", floodLimit), "--maxmemory-policy", policy}
		if err := withServer(args, func(p *process) error { return floodOne(p, policy, b) }); err != nil {
			return err
		}
	}
	return nil
}

func floodOne(p *process, policy string, b *board) error {
	mine := keyspace{"mine:", 16, 0, exhausted}
	if err := fillAll(p.addr, mine, never+" 10"); err != nil {
		return err
	}
	var most int64
	var all outcome
	const parts = 20
	for i := range parts {
		part := keyspace{"junk:", 16, floodKeys / parts * i, floodKeys / parts * (i + 1)}
		o, err := fill(p.addr, part, never)
		if err != nil {
			return err
		}
		all.add(o)
		rss, err := residentBytes(p.pid())
		if err != nil {
			return err
		}
		most = max(most, rss)
	}
	long, err := fill(p.addr, keyspace{"long:", longKey, 0, longKeys}, never)
	if err != nil {
		return err
	}
	after, err := fill(p.addr, mine, never)
	if err != nil {
		return err
	}
	b.note("%s: %d keys flooded in, %d got a record, %d were refused with -OOM; of %d keys of %d bytes, %d", policy, floodKeys, all.admitted, all.failed, longKeys, longKey, long.failed)
	b.atMost(policy+": RSS under the flood", mib(most), 1.25*floodLimit+64, "MiB")
	b.atMost(policy+": exhausted keys that were forgotten", float64(exhausted-after.limited), 0, "")
	return nil
}
