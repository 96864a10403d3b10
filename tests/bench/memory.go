package main

import (
	"errors"
	"fmt"
)

const (
	manyKeys    = 10_000_000
	peerKeys    = 1_000_000
	maxPer16    = 64 // bytes of RSS for a key of 16 bytes
	maxBeside40 = 48 // bytes of RSS for a key of 40 bytes, in addition to the key itself
)

// memory fills servers with keys and prints the memory per key. It counts the whole RSS
// for throttled, and the growth of the RSS for a peer.
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

// withServer starts a server, calls use, and stops the server.
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

// residentFilled fills a server with keys and returns its RSS.
func residentFilled(addr string, n, size int) (int64, error) {
	if err := fillAll(addr, keyspace{"m:", size, 0, n}, never); err != nil {
		return 0, err
	}
	return residentOf(addr)
}
