package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	idleConns     = 9_900 // the HTTP port, whose metrics are read, gets half of the 20,000 descriptors
	idleP99       = 1.2
	idleRoom      = 16 // clients that may connect beside the idle ones while latencies are measured
	churnRate     = 5_000
	churnWorkers  = 64
	churnSources  = 20  // addresses, since each closed connection occupies a port of its address for a minute
	churnReached  = 0.9 // share of the rate that the machine must reach
	lorisClients  = 2_000
	lorisBytes    = 32 << 10
	timeoutBar    = 10.5 // s: a timeout of 10 s, which the server checks every 100 ms, on a busy machine
	watchTimeout  = 13 * time.Second
	fewFilesLimit = 256
	fewConns      = 500
	fewCPU        = 5 // percent of a core
	fewObserved   = 3 * time.Second
)

// idleClients measures other clients beside idle ones, and the memory of an idle connection.
func (a *abuser) idleClients() error {
	return a.withVictim([]string{"--maxclients", strconv.Itoa(idleConns)}, func(v *victim) error {
		v.kept = idleResident
		err := a.compare(v, idleP99, func() (l latencies, err error) {
			err = withIdle(v.addr, idleConns-idleRoom, func(*idleHolder) error {
				l, err = a.others(v, politeTime)
				return err
			})
			return l, err
		})
		if err != nil {
			return err
		}
		return withIdle(v.addr, idleConns, func(h *idleHolder) error {
			rss, err := residentBytes(v.pid())
			a.atMost("RSS for an idle connection", float64(rss-v.base.rss)/idleConns/1024, maxIdleBytes/1024, "KiB")
			return errors.Join(err, h.refused())
		})
	})
}

// withIdle calls use while n idle connections are open.
func withIdle(addr string, n int, use func(h *idleHolder) error) error {
	h := &idleHolder{addr: addr}
	defer h.close()
	if err := h.hold(n); err != nil {
		return err
	}
	return use(h)
}

// churn opens connections at a rate, each for one PING.
func (a *abuser) churn() error {
	return a.withVictim(nil, func(v *victim) error {
		var n atomic.Int64
		var elapsed time.Duration
		err := a.beside(v, abuseP99, func(stop <-chan struct{}) error {
			begin := time.Now()
			defer func() { elapsed += time.Since(begin) }()
			return paced(churnRate, churnWorkers, stop, func(i int64) error {
				n.Add(1)
				return a.greet(v.addr, int(i%churnSources))
			})
		})
		if err != nil {
			return err
		}
		a.atLeast("connections per second", float64(n.Load())/elapsed.Seconds(), churnReached*churnRate, "")
		waiting, err := timeWaits(v.addr)
		a.atMost("server's connections in TIME_WAIT", float64(waiting), 0, "")
		return err
	})
}

// greet opens a connection for one PING.
func (a *abuser) greet(addr string, source int) error {
	c, err := dialFrom(source, addr)
	if err != nil {
		return err
	}
	return errors.Join(exchange(c, "PING\r\n", "+PONG\r\n"), c.Close())
}

// paced calls do at a rate per second from several goroutines, with consecutive numbers, until stop is closed or a call
// fails. It is late if the goroutines cannot reach the rate.
func paced(rate float64, workers int, stop <-chan struct{}, do func(i int64) error) error {
	var next atomic.Int64
	begin := time.Now()
	return together(workers, func(int) error {
		for {
			i := next.Add(1) - 1
			due := begin.Add(time.Duration(float64(i) / rate * float64(time.Second)))
			if !pause(stop, time.Until(due)) { // the schedule
				return nil
			}
			if err := do(i); err != nil {
				return err
			}
		}
	})
}

// together calls do from n goroutines, with the numbers from 0, and returns the first errors.
func together(n int, do func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = do(i) })
	}
	all.Wait()
	const shown = 3
	var first []error
	for _, err := range errs {
		if err != nil && len(first) < shown {
			first = append(first, err)
		}
	}
	return errors.Join(first...)
}

// timeWaits returns the number of connections that the server at an address closed first, and that wait for late segments.
func timeWaits(addr string) (n int, err error) {
	text, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return 0, err
	}
	port, err := strconv.Atoi(portOf(addr))
	local := fmt.Sprintf("0100007F:%04X", port) // 127.0.0.1 as the kernel prints it
	for line := range bytes.Lines(text) {
		if f := bytes.Fields(line); len(f) > 3 && string(f[1]) == local && string(f[3]) == "06" {
			n++
		}
	}
	return n, err
}

// slowWriters opens connections that send one byte of a command per second.
func (a *abuser) slowWriters() error {
	return a.withVictim(nil, func(v *victim) error {
		err := a.beside(v, abuseP99, func(stop <-chan struct{}) error {
			return together(lorisClients, func(i int) error { _, err := loris(v.addr, i, stop); return err })
		})
		if err != nil {
			return err
		}
		var longest atomic.Int64
		sampled := sampleResident(v.pid())
		stop := make(chan struct{})
		timer := time.AfterFunc(watchTimeout, func() { close(stop) })
		defer timer.Stop()
		err = together(lorisClients, func(i int) error {
			took, err := loris(v.addr, i, stop)
			raise(&longest, int64(took))
			return err
		})
		a.atMost("time until closed, longest", time.Duration(longest.Load()).Seconds(), timeoutBar, "s")
		a.atMost("RSS for each of them", float64(sampled()-v.base.rss)/lorisClients/1024, lorisBytes/1024, "KiB")
		return err
	})
}

// raise stores n in a variable that has a smaller value.
func raise(most *atomic.Int64, n int64) {
	for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
	}
}

// loris sends a command byte by byte, see drip.
func loris(addr string, i int, stop <-chan struct{}) (took time.Duration, err error) {
	return drip(addr, i, "*2\r\n$4\r\nECHO\r\n$1000\r\n"+strings.Repeat("x", 1000), stop)
}

// drip sends a text at one byte per second until the server replies or closes the connection. It returns the time from the
// first byte until then.
func drip(addr string, i int, text string, stop <-chan struct{}) (took time.Duration, err error) {
	c, err := dialFrom(i%churnSources, addr)
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	begin := time.Now()
	for ; pause(stop, 0); text = text[1:] {
		if _, err := io.WriteString(c, text[:1]); err != nil {
			break
		}
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
	}
	return time.Since(begin), nil
}

// fewFiles opens more connections than a leader may open files. It checks the processor time of the leader, that it keeps
// the leadership, and that a follower can join meanwhile.
func (a *abuser) fewFiles() error {
	limited := slices.Concat(a.wrapper, []string{"sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, fewFilesLimit), a.server})
	nodes, err := startGroupUnder(limited, "--raft-fsync", "no")
	if err != nil {
		return err
	}
	return errors.Join(a.fillFiles(nodes), nodes.stop())
}

func (a *abuser) fillFiles(nodes *group) error {
	leader, err := nodes.leader()
	if err != nil {
		return err
	}
	before, err := nodes.heartbeats()
	if err != nil {
		return err
	}
	calm, err := cpuShare(leader.pid(), fewObserved)
	if err != nil {
		return err
	}
	files, err := openFiles(leader.pid())
	if err != nil {
		return err
	}
	kept := &idleHolder{addr: leader.addr}
	defer kept.close()
	if err := kept.hold(1); err != nil {
		return err
	}
	stop := make(chan struct{})
	attacked := make(chan error, 1)
	go func() { attacked <- together(fewConns, func(i int) error { return insist(leader.addr, i, stop) }) }()
	err = a.whileFull(nodes, leader, calm)
	err = errors.Join(err, exchange(kept.conns[0], "PING\r\n", "+PONG\r\n"))
	close(stop)
	if err = errors.Join(err, <-attacked); err != nil {
		return err
	}
	after, err := nodes.heartbeats()
	if err != nil {
		return err
	}
	a.atMost("elections", after.term-before.term, 0, "")
	return a.filesClosed(leader, files)
}

// whileFull measures a leader that has no free descriptors for clients, and restarts a follower.
func (a *abuser) whileFull(nodes *group, leader *node, calm float64) error {
	if err := awaitRefusal(leader.addr); err != nil {
		return err
	}
	share, err := cpuShare(leader.pid(), fewObserved)
	if err != nil {
		return err
	}
	a.atMost("processor time of the leader, more than before", 100*(share-calm), fewCPU, "%")
	n, err := openFiles(leader.pid())
	if err != nil {
		return err
	}
	a.atMost("open files of the leader", float64(n), fewFilesLimit-1, "")
	follower := nodes.other(leader)
	if err := errors.Join(follower.kill(), follower.start()); err != nil {
		return err
	}
	return follower.awaitLink()
}

// insist keeps a connection open that has sent a command. If the server refuses it, it tries again every second.
func insist(addr string, i int, stop <-chan struct{}) error {
	for {
		c, err := dialFrom(i%churnSources, addr)
		if err == nil {
			_ = exchange(c, "PING\r\n", "+PONG\r\n") // fails if the connection is refused
			_ = c.SetReadDeadline(time.Time{})
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = c.Read(make([]byte, 1))
			}()
			select {
			case <-ended:
			case <-stop:
			}
			_ = c.Close()
			<-ended
		}
		if !pause(stop, time.Second) { // the interval of a client that reconnects
			return nil
		}
	}
}

// awaitRefusal waits until a server refuses a connection.
func awaitRefusal(addr string) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(replyPatience); time.Now().Before(end); <-ticker.C {
		if _, err := command(addr, "PING"); err != nil && strings.HasPrefix("-"+err.Error(), strings.TrimSpace(tooManyClients)) {
			return nil
		}
	}
	return errors.New("the server does not refuse connections")
}

// filesClosed compares the open files of a node with those before.
func (a *abuser) filesClosed(n *node, before int) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(growthWithin); ; <-ticker.C {
		now, err := openFiles(n.pid())
		if err != nil {
			return err
		}
		if now <= before+moreFiles || time.Now().After(end) {
			a.atMost("afterwards: more open files", float64(now-before), moreFiles, "")
			return nil
		}
	}
}

// cpuShare returns the share of a core that a process uses.
func cpuShare(pid int, lasting time.Duration) (float64, error) {
	before, err := cpuSeconds(pid)
	if err != nil {
		return 0, err
	}
	time.Sleep(lasting) // the duration of the measurement
	after, err := cpuSeconds(pid)
	return (after - before) / lasting.Seconds(), err
}
