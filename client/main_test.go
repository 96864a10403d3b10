package client

import (
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/throttledhq/throttled/client/internal/testserver"
)

// patience is the timeout for expected events.
const patience = time.Minute

// ExampleAddr is the address of a server for the examples.
var ExampleAddr string

func TestMain(m *testing.M) { os.Exit(testserver.Main(m, &ExampleAddr)) }

// dial returns a client of go-redis for a server.
func dial(t testing.TB, addr string) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = rdb.Close() }) // a test may have closed it
	return rdb
}

// connect returns a Client that waits for decisions of a busy machine, unless the options have a timeout.
func connect(t testing.TB, rdb Redis, o Options) *Client {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = patience
	}
	c, err := New(rdb, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// must returns the limit, which is valid.
func must(l Limit, err error) Limit {
	if err != nil {
		panic(err)
	}
	return l
}

// allow returns the decision on a request.
func allow(t testing.TB, c *Client, key string, l Limit) Decision {
	t.Helper()
	d, err := c.Allow(t.Context(), key, l)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// eventually waits until a condition is met. It polls, because no event announces the condition.
func eventually(t testing.TB, what string, met func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !met(); time.Sleep(time.Millisecond) { // the polling interval
		if time.Now().After(deadline) {
			t.Fatalf("not met within %v: %s", patience, what)
		}
	}
}
