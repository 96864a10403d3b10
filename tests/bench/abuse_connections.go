package main

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	idleConns    = 9_900 // the HTTP port, whose metrics are read, gets half of the 20,000 descriptors
	idleP99      = 1.2
	idleRoom     = 16 // clients that may connect beside the idle ones while latencies are measured
	churnRate    = 5_000
	churnWorkers = 64
	churnSources = 20  // addresses, since each closed connection occupies a port of its address for a minute
	churnReached = 0.9 // share of the rate that the machine must reach
	lorisClients = 2_000
	lorisBytes   = 32 << 10
	timeoutBar   = 10.5 // s: a timeout of 10 s, which the server checks every 100 ms, on a busy machine
	watchTimeout = 13 * time.Second
)

// idleClients measures other clients beside idle ones, and the memory of an idle connection.
func (a *abuser) idleClients() error {
	return a.withVictim([]string{"--maxclients", strconv.Itoa(idleConns)}, func(v *victim) error {
		v.kept = idleResident
		err := a.compare(v, idleP99, func() (l latencies, err error) {
			err = withIdle(v.addr, idleConns-idleRoom, func(*idleHolder) error {
				l, err = a.others(v, loadTime)
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
