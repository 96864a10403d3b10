package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
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
		callers.Go(func() { results[i] = ask(addr, request, limit.Max-1, end) })
	}
	callers.Wait()
	elapsed := time.Since(start)
	var all result
	for _, r := range results {
		if r.err != nil {
			return r.err
		}
		all.add(r)
	}
	// All requests were decided within the elapsed time, so at most the limit and the units
	// restored in this time were admitted. When the last refusal was decided, less than one unit
	// was left. The number of admitted requests is therefore at least the limit, plus the units
	// restored between the last request to the full limit and the last refusal, minus one: a full
	// limit restores no units. If fewer requests than this minimum were sent, all were admitted.
	most := limit.Max + int64(elapsed/limit.Interval)
	least := min(limit.Max-1+int64(all.lastRefused.Sub(all.lastFull)/limit.Interval), all.asked)
	b.note("%d connections, %s: %d requests in %v, %d admitted, permitted %d to %d",
		s.callers, request[:len(request)-2], all.asked, elapsed.Round(time.Millisecond), all.admitted, least, most)
	b.atMost("admitted beyond the limit", float64(max(0, all.admitted-most)), 0, "")
	b.atMost("refused within the limit", float64(max(0, least-all.admitted)), 0, "")
	return nil
}

// result is the record of one connection, or of all connections.
type result struct {
	asked, admitted int64
	lastFull        time.Time // time of the last reply to a request that was admitted with the full limit
	lastRefused     time.Time // time just before the last refused request was sent
	err             error
}

func (r *result) add(other result) {
	r.asked += other.asked
	r.admitted += other.admitted
	if other.lastFull.After(r.lastFull) {
		r.lastFull = other.lastFull
	}
	if other.lastRefused.After(r.lastRefused) {
		r.lastRefused = other.lastRefused
	}
}

// ask sends a request repeatedly, and counts the admitted ones. The reply to a request to the full limit has the given number of
// remaining units.
func ask(addr, request string, afterFull int64, end time.Time) (r result) {
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
		d, err := readDecision(replies)
		if err != nil {
			return result{err: err}
		}
		r.asked++
		switch {
		case d.limited:
			r.lastRefused = sent
			continue
		case d.remaining == afterFull:
			r.lastFull = time.Now()
		}
		r.admitted++
	}
	return r
}

// decision is the part of a reply that the measurements use.
type decision struct {
	limited   bool
	remaining int64
}

// readDecision reads an array of five integers.
func readDecision(r *bufio.Reader) (decision, error) {
	var integers [5]int64
	for i := -1; i < len(integers); i++ {
		line, err := r.ReadString('\n')
		if err != nil {
			return decision{}, err
		}
		if i < 0 {
			if line != "*5\r\n" {
				return decision{}, fmt.Errorf("unexpected reply %q", line)
			}
			continue
		}
		if integers[i], err = strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(line, ":"), "\r\n"), 10, 64); err != nil {
			return decision{}, fmt.Errorf("unexpected integer: %w", err)
		}
	}
	return decision{limited: integers[0] == 1, remaining: integers[2]}, nil
}
