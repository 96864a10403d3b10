package middleware

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/throttledhq/throttled/middleware/internal/testserver"
)

// patience is the timeout for expected events.
const patience = 2 * time.Minute

// program is the path of the server that TestMain has built.
var program string

// ExampleAddr is the address of a server for the examples.
var ExampleAddr string

// exampleRules are the rules of the server for the examples.
const exampleRules = `
version: 1
domain: shop
limits:
  api:
    per: ip
    allow: 2 per minute
`

func TestMain(m *testing.M) {
	os.Exit(testserver.MainWithServer(m, exampleRules, &program, &ExampleAddr))
}

// connect returns a client of a server. Calls that the server does not answer fail after patience only, so that a
// test that does not wait for them shows that the limiter does not either.
func connect(t testing.TB, addr string, protocol int) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: addr, Protocol: protocol, MaxRetries: -1, DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience,
	})
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// patient is a Config for tests that need decisions of the server on a busy machine.
func patient() Config { return Config{Timeout: patience} }

// All clients of go-redis implement Client.
var _ Client = redis.UniversalClient(nil)

// allow returns the decision on a request.
func allow(t testing.TB, l *Limiter, r Request) Decision {
	t.Helper()
	d, err := l.Allow(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// keyed returns a request with one limit.
func keyed(key string, limit Limit) Request {
	limit.Key = key
	return Request{Limits: []Limit{limit}}
}

// fake is a client whose replies a function makes.
type fake struct {
	reply func(ctx context.Context, args []any) (any, error)

	mu    sync.Mutex
	calls [][]any
}

// Do implements Client.
func (f *fake) Do(ctx context.Context, args ...any) *redis.Cmd {
	f.mu.Lock()
	f.calls = append(f.calls, args)
	f.mu.Unlock()
	cmd := redis.NewCmd(ctx, args...)
	reply, err := f.reply(ctx, args)
	cmd.SetVal(reply)
	cmd.SetErr(err)
	return cmd
}

// count returns the number of calls.
func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.calls)
}

// reply returns the reply to CL.ALL with one limit.
func reply(limited, limit, remaining, retry, reset int64) any {
	five := []any{limited, limit, remaining, retry, reset}
	return append(append([]any{}, five...), append([]any{}, five...))
}
