package middleware

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/throttledhq/throttled/middleware/internal/testserver"
)

// BenchmarkAllow measures a check by the server, and beside it the same command by go-redis alone.
func BenchmarkAllow(b *testing.B) {
	client := connect(b, testserver.Start(b, program, "").Addr, 3)
	l := New(client, patient())
	r := keyed("k", Limit{Count: 1 << 40, Period: 3600e9})
	args, err := r.args()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("go-redis", func(b *testing.B) {
		for b.Loop() {
			if err := client.Do(context.Background(), args...).Err(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("go-redis, concurrent", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := client.Do(context.Background(), args...).Err(); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("Allow, concurrent", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if d := allow(b, l, r); d.Err != nil {
					b.Error(d.Err)
				}
			}
		})
	})
	b.Run("Allow", func(b *testing.B) {
		for b.Loop() {
			if d := allow(b, l, r); d.Err != nil {
				b.Fatal(d.Err)
			}
		}
	})
}

// BenchmarkHandler measures the overhead of the middleware without the server: an instant reply of a fake client.
func BenchmarkHandler(b *testing.B) {
	instant := instantClient{}
	down := New(instant, Config{OnFailure: Local})
	for range 5 {
		down.breaker.end(down.breaker.epoch, failed)
	}
	down.breaker.until = down.breaker.until.AddDate(1, 0, 0)
	limits := PerIP(Proxies{}, PerMinute(100))
	for _, c := range []struct {
		name    string
		handler http.Handler
	}{
		{"none", http.NotFoundHandler()},
		{"server", New(instant, Config{}).Handler(limits.Request)(http.NotFoundHandler())},
		{"local", down.Handler(limits.Request)(http.NotFoundHandler())},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			for b.Loop() {
				c.handler.ServeHTTP(httptest.NewRecorder(), r)
			}
		})
	}
}

// instantClient is a client that admits each request, without a server.
type instantClient struct{}

// Do implements Client.
func (instantClient) Do(ctx context.Context, args ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx, args...)
	cmd.SetVal(reply(0, 100, 99, -1, 600))
	return cmd
}
