package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The load of the measurement of fairness: two sidecars whose clients request units of one limit, one of them ten times as
// many as the other, and together more than twice the limit. After fairPhase, their demands are exchanged.
const (
	fairLimit   = 2000 // units per second, and in one burst
	fairHigh    = 4000 // units per second
	fairLow     = fairHigh / 10
	fairPhase   = 5 * time.Second
	fairPhases  = 2
	fairWindow  = 250 * time.Millisecond // of which shares are computed
	fairWindows = int(fairPhases * fairPhase / fairWindow)
)

// The bars of fairness. The share of the larger demand follows if it is between that of max-min fairness, which meets the
// smaller demand, and that of direct requests, which is proportional to the demand.
const (
	fairFollowBar = 2   // s until the shares follow the demand
	fairTotalBar  = 0.9 // of the units that the limit permits
	maxMinShare   = float64(fairLimit-fairLow) / fairLimit
	directShare   = float64(fairHigh) / (fairHigh + fairLow)
	fairDeviation = 0.05 // of a share outside of this range
)

// fairSidecars measures the shares of a limit that two sidecars admit.
func fairSidecars(binary string, up upstream, _ settings, b *board) error {
	addrs, stop, err := startSidecars(binary, 2, []upstream{up})
	if err != nil {
		return errors.Join(err, stop())
	}
	var sides [2]demandSide
	begin := time.Now()
	var running sync.WaitGroup
	for i := range sides {
		sides[i].addr, sides[i].first = addrs[i], i == 0
		running.Go(func() { sides[i].run(begin) })
	}
	running.Wait()
	if err := errors.Join(sides[0].err, sides[1].err, stop()); err != nil {
		return err
	}
	showFairness(&sides, b)
	return nil
}

func showFairness(sides *[2]demandSide, b *board) {
	const perPhase = fairWindows / fairPhases
	var shares [fairWindows]float64
	total := 0.0
	for i := range shares {
		admitted := [2]float64{float64(sides[0].admitted[i].Load()), float64(sides[1].admitted[i].Load())}
		sum := admitted[0] + admitted[1]
		shares[i] = admitted[i/perPhase] / max(1, sum)
		if i >= perPhase/2 { // the burst is spent
			total += sum
		}
	}
	limit := fairLimit * (fairPhase*fairPhases - fairPhase/2).Seconds()
	for phase, name := range []string{"from the start", "after the swap"} {
		part := shares[phase*perPhase : (phase+1)*perPhase]
		b.note("fairness: share of the larger demand %s, in windows of %v: %.2f", name, fairWindow, part)
		b.atMost("fairness: shares follow the demand "+name, followsAfter(part).Seconds(), fairFollowBar, "s")
	}
	b.note("fairness: demands of %d and %d units/s, a limit of %d: the larger share is %.2f by max-min fairness, and %.2f in proportion", fairHigh, fairLow, fairLimit, maxMinShare, directShare)
	b.atLeast("fairness: admitted, ratio to the limit", total/limit, fairTotalBar, "x")
}

// followsAfter returns the time from which on all shares follow the demand.
func followsAfter(shares []float64) time.Duration {
	n := len(shares)
	for n > 0 && shares[n-1] >= maxMinShare-fairDeviation && shares[n-1] <= directShare+fairDeviation {
		n--
	}
	return time.Duration(n) * fairWindow
}

// demandSide is the clients of one sidecar.
type demandSide struct {
	addr     string
	first    bool // its demand is the larger one in the first phase
	admitted [fairWindows]atomic.Int64
	err      error
}

// run sends requests on a schedule, and counts the admitted ones in the window in which their replies arrive.
func (d *demandSide) run(begin time.Time) {
	c, err := net.Dial("tcp", d.addr)
	if err != nil {
		d.err = err
		return
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(begin.Add(fairPhases*fairPhase + replyPatience))
	sent := make(chan int, fairWindows*int(fairWindow/fairTick)) // numbers of requests, as many as there are ticks
	var writing sync.WaitGroup
	writing.Go(func() {
		defer close(sent)
		if err := d.send(c, begin, sent); err != nil {
			_ = c.Close() // ends the reads
		}
	})
	d.err = d.receive(bufio.NewReader(c), begin, sent)
	writing.Wait()
}

// fairTick is the interval in which the requests that are due are sent.
const fairTick = 5 * time.Millisecond

// send sends the requests that are due at each tick, and passes their number to sent.
func (d *demandSide) send(c io.Writer, begin time.Time, sent chan<- int) error {
	request := fmt.Sprintf("CL.THROTTLE fair %d %d 1\r\n", fairLimit-1, fairLimit)
	ticker := time.NewTicker(fairTick)
	defer ticker.Stop()
	for total := 0; ; <-ticker.C {
		elapsed := time.Since(begin)
		if elapsed >= fairPhases*fairPhase {
			return nil
		}
		due := d.due(elapsed) - total
		if due == 0 {
			continue
		}
		if _, err := io.WriteString(c, strings.Repeat(request, due)); err != nil {
			return err
		}
		total += due
		sent <- due
	}
}

// due returns the number of requests that are due after a time.
func (d *demandSide) due(elapsed time.Duration) int {
	rates := [fairPhases]float64{fairLow, fairHigh}
	if d.first {
		rates = [fairPhases]float64{fairHigh, fairLow}
	}
	first := min(elapsed, fairPhase)
	return int(rates[0]*first.Seconds() + rates[1]*(elapsed-first).Seconds())
}

// receive reads the replies to all requests.
func (d *demandSide) receive(replies *bufio.Reader, begin time.Time, sent <-chan int) error {
	for n := range sent {
		for range n {
			got, err := readDecision(replies)
			if err != nil {
				return err
			}
			if window := int(time.Since(begin) / fairWindow); !got.limited && window < fairWindows {
				d.admitted[window].Add(1)
			}
		}
	}
	return nil
}
