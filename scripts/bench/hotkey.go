package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/gcra"
)

// hotLimit is a limit on the hot key. The first never gives a unit back while the
// measurement runs, so the count is exact to the unit; the second gives many back.
type hotLimit struct{ maxBurst, count, period int64 }

var hotLimits = []hotLimit{
	{99_999, 1, 86400},
	{9_999, 20_000, 1},
}

// hotKey lets many connections ask for one key as fast as they can, and holds what has
// been admitted against what the limit allows in the time that passed.
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
	limit, err := gcra.NewLimit(l.maxBurst, l.count, l.period)
	if err != nil {
		return err
	}
	request := fmt.Sprintf("CL.THROTTLE %s %d %d %d\r\n", key, l.maxBurst, l.count, l.period)
	var admitted, asked atomic.Int64
	var callers sync.WaitGroup
	failures := make(chan error, s.callers)
	start := time.Now()
	end := start.Add(s.lasting)
	for range s.callers {
		callers.Go(func() {
			a, n, err := ask(addr, request, end)
			admitted.Add(a)
			asked.Add(n)
			failures <- err
		})
	}
	callers.Wait()
	elapsed := time.Since(start)
	close(failures)
	for err := range failures {
		if err != nil {
			return err
		}
	}
	// Everything was decided between start and now, and the callers never let the bucket
	// fill up again, so all that came back in the time they asked was admitted, but for
	// what came back before the first and after the last of them.
	most := limit.Max + int64(elapsed/limit.Interval)
	least := min(limit.Max+int64((s.lasting-slack)/limit.Interval), asked.Load())
	b.note("%d connections, %s: %d asked in %v, %d admitted, allowed %d to %d",
		s.callers, request[:len(request)-2], asked.Load(), elapsed.Round(time.Millisecond), admitted.Load(), least, most)
	b.atMost("admitted beyond the limit", float64(max(0, admitted.Load()-most)), 0, "")
	b.atMost("refused within the limit", float64(max(0, least-admitted.Load())), 0, "")
	return nil
}

// slack is how long the first answer and the end of the last caller may take together.
const slack = 500 * time.Millisecond

// ask sends a request again and again, and counts how many are admitted.
func ask(addr, request string, end time.Time) (admitted, asked int64, err error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = c.Close() }()
	r := bufio.NewReader(c)
	for time.Now().Before(end) {
		if _, err := c.Write([]byte(request)); err != nil {
			return admitted, asked, err
		}
		limited, err := readDecision(r)
		if err != nil {
			return admitted, asked, err
		}
		asked++
		if !limited {
			admitted++
		}
	}
	return admitted, asked, nil
}

// readDecision reads an array of five integers and returns whether the first is 1.
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
