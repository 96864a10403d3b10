package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// measureSidecars measures requests through sidecars on hot keys, on exhausted keys, and on a key that two sidecars share, and
// decisions of the client package.
func measureSidecars(s settings, b *board) error {
	if err := inProcess(b); err != nil {
		return err
	}
	return withGenerator(func(g generator) error {
		return withServer(nil, func(p *process) error {
			binary := filepath.Join(p.dir, "throttled")
			for _, measure := range []func(string, upstream, settings, *board) error{g.hotSidecar, g.refusingSidecar, fairSidecars} {
				if err := measure(binary, upstream{p.addr, p.pid()}, s, b); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// upstream is a process that decides the requests of sidecars.
type upstream struct {
	addr string
	pid  int
}

// startSidecars starts n sidecars, each of which lists another upstream first, and returns their addresses. The function
// stop stops them, also after an error.
func startSidecars(binary string, n int, ups []upstream) (addrs []string, stop func() error, err error) {
	started := &group{}
	stop = started.stop
	if addrs, err = freeAddrs(n); err != nil {
		return nil, stop, err
	}
	for i, addr := range addrs {
		list := ""
		for j := range ups {
			list += ups[(i+j)%len(ups)].addr + ","
		}
		n := &node{id: fmt.Sprint("sidecar", i), addr: addr, args: []string{binary, "--port", portOf(addr), "--upstream", list, "--upstream-timeout", "5000"}}
		if err := n.start(); err != nil {
			return nil, stop, err
		}
		started.nodes = append(started.nodes, n)
		if err := awaitUpstream(addr); err != nil {
			return nil, stop, err
		}
	}
	return addrs, stop, nil
}

// awaitUpstream waits until a sidecar uses an upstream.
func awaitUpstream(addr string) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for end := time.Now().Add(formWithin); time.Now().Before(end); <-ticker.C {
		if text, err := infoField(addr, "sidecar", "upstream_link_status"); err == nil && text == "up" {
			return nil
		}
	}
	return errors.New("the sidecar does not reach its upstream")
}
