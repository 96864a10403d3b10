package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// flagEvery is the interval at which a node is asked for the Sentinel flags of the leader, such as
// s_down. It is also the resolution of the measured times.
const flagEvery = time.Millisecond

// flagWatch polls nodes over the Sentinel protocol to find out whether they report the
// leader as down.
type flagWatch struct {
	leader string // address of the leader's host
	links  []*conn
}

// watchFlags connects to all nodes except the leader.
func (c *cluster) watchFlags(leader *node) (*flagWatch, error) {
	w := &flagWatch{leader: leader.host.addr}
	for _, n := range c.nodes {
		if n == leader {
			continue
		}
		link, err := dial(net.JoinHostPort(n.host.addr, strconv.Itoa(sentinelPort)))
		if err != nil {
			w.close()
			return nil, fmt.Errorf("poll the flags of %s: %w", n.id, err)
		}
		w.links = append(w.links, link)
	}
	return w, nil
}

func (w *flagWatch) close() {
	for _, link := range w.links {
		_ = link.Close()
	}
}

// await starts to poll all nodes. The returned function waits until each node has reported that the
// leader is down or that a different node is the leader. It returns, for each node, the time
// that passed between the argument from and the report.
func (w *flagWatch) await(clock clock, from int64) func() ([]time.Duration, error) {
	took, errs := make([]time.Duration, len(w.links)), make([]error, len(w.links))
	var asking sync.WaitGroup
	for i, link := range w.links {
		asking.Go(func() {
			errs[i] = w.awaitOne(link)
			took[i] = time.Duration(clock.now() - from)
		})
	}
	return func() ([]time.Duration, error) {
		asking.Wait()
		return took, errors.Join(errs...)
	}
}

func (w *flagWatch) awaitOne(link *conn) error {
	// The sleep is the sampling interval: the flags must be polled, since nodes do not
	// announce changes.
	for deadline := time.Now().Add(startWithin); time.Now().Before(deadline); time.Sleep(flagEvery) {
		r, err := link.ask(patience, "SENTINEL", "MASTER", "mymaster")
		if err != nil {
			return fmt.Errorf("poll the flags: %w", err)
		}
		if m := pairsOf(r.list); m["ip"] != w.leader || strings.Contains(m["flags"], "s_down") {
			return nil
		}
	}
	return errors.New("no node flags the killed leader with s_down")
}

// pairsOf reads a list of alternating names and values.
func pairsOf(list []reply) map[string]string {
	m := map[string]string{}
	for i := 0; i+1 < len(list); i += 2 {
		m[list[i].text] = list[i+1].text
	}
	return m
}
