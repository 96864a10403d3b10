package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/throttledhq/throttled/gcra"
	"github.com/throttledhq/throttled/limiter"
)

// hotLimit is a limit on the hot key.
type hotLimit struct{ maxBurst, count, period int64 }

// hotLimits lists the limits of the measurement. The first restores no unit during the
// measurement, so the expected count is exact. The second restores many units.
var hotLimits = []hotLimit{
	{99_999, 1, 86400},
	{9_999, 20_000, 1},
}

// hotKey charges one key over many connections as fast as possible, and compares the
// admitted units with the units that the limit allows in the elapsed time.
func hotKey(s settings, b *board) (err error) {
	server, err := startServer()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	for i, l := range hotLimits {
		if err := hammer(server.addr, fmt.Sprintf("hot%d", i), l, s, b); err != nil {
			return err
		}
	}
	return nil
}

func hammer(addr, key string, l hotLimit, s settings, b *board) error {
	limit, err := gcra.NewLimit(l.maxBurst, l.count, limiter.Seconds(l.period))
	if err != nil {
		return err
	}
	request := fmt.Sprintf("CL.THROTTLE %s %d %d %d\r\n", key, l.maxBurst, l.count, l.period)
	results := make([]result, s.callers)
	var callers sync.WaitGroup
	start := time.Now()
	end := start.Add(s.lasting)
	for i := range results {
		callers.Go(func() { results[i] = ask(addr, request, end) })
	}
	callers.Wait()
	elapsed := time.Since(start)
	all := result{firstReply: start.Add(elapsed)}
	for _, r := range results {
		if r.err != nil {
			return r.err
		}
		all.add(r)
	}
	// All requests were decided within the elapsed time, so at most the limit and the units
	// restored in this time were admitted. When the last refusal was decided, less than one unit
	// was left. The number of admitted requests is therefore at least the limit, plus the units
	// restored between the first decision and the last refusal, minus one. If fewer
	// requests than this minimum were sent, all requests were admitted.
	most := limit.Max + int64(elapsed/limit.Interval)
	least := min(limit.Max-1+int64(all.lastRefused.Sub(all.firstReply)/limit.Interval), all.asked)
	b.note("%d connections, %s: %d requests in %v, %d admitted, permitted %d to %d",
		s.callers, request[:len(request)-2], all.asked, elapsed.Round(time.Millisecond), all.admitted, least, most)
	b.atMost("admitted beyond the limit", float64(max(0, all.admitted-most)), 0, "")
	b.atMost("refused within the limit", float64(max(0, least-all.admitted)), 0, "")
	return nil
}

// result is the record of one connection, or of all connections.
type result struct {
	asked, admitted int64
	firstReply      time.Time
	lastRefused     time.Time // time just before the last refused request was sent
	err             error
}

func (r *result) add(other result) {
	r.asked += other.asked
	r.admitted += other.admitted
	if other.firstReply.Before(r.firstReply) {
		r.firstReply = other.firstReply
	}
	if other.lastRefused.After(r.lastRefused) {
		r.lastRefused = other.lastRefused
	}
}

// ask sends a request repeatedly, and counts the admitted ones.
func ask(addr, request string, end time.Time) (r result) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return result{err: err}
	}
	defer func() { _ = c.Close() }()
	replies := bufio.NewReader(c)
	for sent := time.Now(); sent.Before(end); sent = time.Now() {
		if _, err := c.Write([]byte(request)); err != nil {
			return result{err: err}
		}
		limited, err := readDecision(replies)
		if err != nil {
			return result{err: err}
		}
		if r.asked++; r.asked == 1 {
			r.firstReply = time.Now()
		}
		if limited {
			r.lastRefused = sent
		} else {
			r.admitted++
		}
	}
	return r
}

// readDecision reads an array of five integers and reports whether the first is 1.
func readDecision(r *bufio.Reader) (limited bool, err error) {
	for i := range 6 {
		line, err := r.ReadString('\n')
		if err != nil {
			return false, err
		}
		if i == 0 && line != "*5\r\n" {
			return false, fmt.Errorf("unexpected reply %q", line)
		}
		if i == 1 {
			limited = line == ":1\r\n"
		}
	}
	return limited, nil
}
