package rediscell

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/throttledhq/throttled/internal/freeport"
	"github.com/throttledhq/throttled/limiter"
)

// redisServer is a real server that runs until the end of the test.
type redisServer struct {
	*redis.Client
	t    *testing.T
	addr string
	cmd  *exec.Cmd
	url  string
}

// startRedis starts a server with additional arguments. password may be empty.
func startRedis(t *testing.T, password string, args ...string) *redisServer {
	t.Helper()
	port := strconv.Itoa(freeport.Of(t))
	args = append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir()}, args...)
	var log bytes.Buffer
	cmd := exec.Command("redis-server", args...)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // the test may have killed the process
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("redis-server: %s", &log)
		}
	})
	s := &redisServer{t: t, addr: "127.0.0.1:" + port, cmd: cmd}
	s.url = "redis://" + s.addr
	s.Client = redis.NewClient(&redis.Options{Addr: s.addr, Password: password, DisableIdentity: true})
	t.Cleanup(func() { _ = s.Close() })
	s.wait()
	return s
}

// wait waits until the server replies.
func (s *redisServer) wait() {
	s.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(2 * time.Minute)
	for {
		select {
		case <-tick.C:
			if s.Ping(context.Background()).Err() == nil {
				return
			}
		case <-timeout:
			s.t.Fatal("redis-server does not reply")
		}
	}
}

// do runs a command that must succeed.
func (s *redisServer) do(args ...any) {
	s.t.Helper()
	if err := s.Do(context.Background(), args...).Err(); err != nil {
		s.t.Fatalf("%v: %v", args, err)
	}
}

// writeCell stores state as redis-cell does: the TTL is truncated and relative.
func writeCell(ctx context.Context, c redis.Cmdable, key string, tat, now uint64) {
	c.Set(ctx, key, tat, 0)
	c.PExpire(ctx, key, time.Duration(tat-now).Truncate(time.Millisecond))
}

// writeDragonfly stores state as Dragonfly does: the expiry time is rounded up and absolute.
func writeDragonfly(ctx context.Context, c redis.Cmdable, key string, tat uint64) {
	c.Set(ctx, key, tat, 0)
	c.PExpireAt(ctx, key, time.UnixMilli(int64((tat+999_999)/1_000_000)))
}

func wallNow() uint64 { return uint64(time.Now().UnixNano()) }

// fill stores n keys as redis-cell does and returns their TATs, which are at least an hour in the future.
func (s *redisServer) fill(prefix string, n int) map[string]uint64 {
	s.t.Helper()
	ctx := context.Background()
	tats := make(map[string]uint64, n)
	for first := 0; first < n; first += 10_000 {
		pipe := s.Pipeline()
		now := wallNow()
		for i := first; i < min(n, first+10_000); i++ {
			key := fmt.Sprintf("%s%d", prefix, i)
			tats[key] = now + uint64(time.Hour) + uint64(i)*1_000_003
			writeCell(ctx, pipe, key, tats[key], now)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			s.t.Fatal(err)
		}
	}
	return tats
}

// sink collects the expiry times of records by key.
type sink map[string]uint64

func (s sink) put(r limiter.Record) error {
	if r.Kind != limiter.Throttle || r.State != nil {
		return fmt.Errorf("unexpected record %+v", r)
	}
	s[string(r.Key)] = r.Expires
	return nil
}

// maxRoundTrip is an upper bound for a round trip to a server on this machine, even under
// load.
const maxRoundTrip = uint64(20 * time.Second)

// wantTATs compares records with the TATs of the source, whose clock is behind the limiter clock by
// the given duration. No used time may be lost, and at most a round trip may be added.
func (s sink) wantTATs(t *testing.T, tats map[string]uint64, behind time.Duration) {
	t.Helper()
	if len(s) != len(tats) {
		t.Errorf("%d keys were imported; want %d", len(s), len(tats))
	}
	for key, tat := range tats {
		if more := s[key] - (tat + uint64(behind)); more > maxRoundTrip {
			t.Fatalf("%q has the TAT %d; want %d plus a round trip at most", key, s[key], tat+uint64(behind))
		}
	}
}

// run imports all keys into a new sink. Its default tolerance is a minute, since on a loaded machine
// the keys may have been written long after their TTLs were computed.
func (s *redisServer) run(c Config) (sink, Report) {
	s.t.Helper()
	c.From = append([]string{s.url}, c.From...)
	if c.Tolerance == 0 {
		c.Tolerance = time.Minute
	}
	got := sink{}
	r, err := Run(context.Background(), c, got.put)
	if err != nil {
		s.t.Fatal(err)
	}
	return got, r
}

func skipped(r Report, why reason) Skipped {
	for _, s := range r.Skipped {
		if s.Reason == reasonNames[why] {
			return s
		}
	}
	return Skipped{}
}
