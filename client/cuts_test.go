package client

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/throttledhq/throttled/client/internal/testserver"
)

// cutter is a proxy that closes each connection after a random number of bytes of replies, usually within a reply. The
// server has then run commands whose replies do not arrive.
type cutter struct {
	net.Listener
	to   string
	cuts atomic.Int64
	open sync.WaitGroup
}

const longestReplies = 4 << 10 // bytes of replies until a connection is cut

func newCutter(t *testing.T, to string) *cutter {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{Listener: ln, to: to}
	c.open.Go(c.accept)
	t.Cleanup(func() {
		_ = ln.Close()
		c.open.Wait()
	})
	return c
}

func (c *cutter) accept() {
	for {
		client, err := c.Accept()
		if err != nil {
			return
		}
		c.open.Go(func() { c.serve(client) })
	}
}

func (c *cutter) serve(client net.Conn) {
	server, err := net.Dial("tcp", c.to)
	if err != nil {
		_ = client.Close()
		return
	}
	c.open.Go(func() {
		_, _ = io.Copy(server, client) // fails when the connection is cut
		_ = server.Close()
	})
	if n, _ := io.CopyN(client, server, 1+rand.Int64N(longestReplies)); n > 0 {
		c.cuts.Add(1)
	}
	_ = client.Close()
	_ = server.Close()
}

// TestAllow_CutConnections cuts connections within replies, so that go-redis repeats commands that the server has run:
// requests, draws of leases, and returns. No limit may admit more than its units.
func TestAllow_CutConnections(t *testing.T) {
	const callers, wantCuts, wantReturns = 8, 200, 20
	proxy := newCutter(t, testserver.Start(t, "0").Addr)
	rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr().String(), MinRetryBackoff: time.Millisecond, MaxRetryBackoff: 10 * time.Millisecond})
	t.Cleanup(func() { _ = rdb.Close() })
	c := connect(t, rdb, Options{Hold: 100 * time.Millisecond})
	load := cutLoad{client: c, limit: must(Throttle(cutUnits-1, 1, 30*24*time.Hour)), begun: time.Now()} // restores no unit during the test
	enough := func() bool { return proxy.cuts.Load() >= wantCuts && c.Stats().Returns >= wantReturns }
	var running sync.WaitGroup
	for range callers {
		running.Go(func() {
			for !enough() && time.Since(load.begun) < patience {
				load.send(t.Context())
			}
		})
	}
	running.Wait()
	for i := range load.admitted {
		if n := load.admitted[i].Load(); n > cutUnits {
			t.Errorf("limit %d: %d units are admitted, want at most %d", i, n, cutUnits)
		}
	}
	if s := c.Stats(); !enough() || load.exhausted() == 0 || s.LocalAdmitted == 0 || s.ServerAdmitted == 0 {
		t.Errorf("%d connections were cut, %d limits were exhausted, and the counters are %+v; want %d cuts, %d returns, and admissions here and by the server",
			proxy.cuts.Load(), load.exhausted(), s, wantCuts, wantReturns)
	}
}

// The load of TestAllow_CutConnections.
const (
	cutUnits = 2000 // of each limit
	cutKeys  = 2    // in use; they are used in turn, so that leases become idle and are returned
	cutTurn  = 50 * time.Millisecond
	cutBurst = 5 // requests of a caller
)

// cutLoad uses limits until they are exhausted, and then others.
type cutLoad struct {
	client   *Client
	limit    Limit
	begun    time.Time
	used     [cutKeys]atomic.Int64 // number of exhausted limits
	admitted [10_000]atomic.Int64  // by limit
}

func (l *cutLoad) exhausted() (sum int64) {
	for i := range l.used {
		sum += l.used[i].Load()
	}
	return sum
}

// send sends a burst of requests.
func (l *cutLoad) send(ctx context.Context) {
	turn := int(time.Since(l.begun)/cutTurn) % cutKeys
	for range cutBurst {
		n := l.used[turn].Load()
		key := (int(n)*cutKeys + turn) % len(l.admitted)
		switch d, err := l.client.Allow(ctx, fmt.Sprint("k", key), l.limit); {
		case err == nil && d.Admitted:
			l.admitted[key].Add(1)
		case err == nil && !d.Flagged:
			l.used[turn].CompareAndSwap(n, n+1)
		}
	}
	time.Sleep(time.Millisecond) // the rate of the load
}
