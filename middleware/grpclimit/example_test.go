package grpclimit_test

import (
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"

	"github.com/throttledhq/throttled/middleware"
	"github.com/throttledhq/throttled/middleware/grpclimit"
)

func Example() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6380"})
	defer func() { _ = client.Close() }()
	limiter := middleware.New(client, middleware.Config{})
	limits := grpclimit.PerPeer(middleware.PerMinute(600))
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(grpclimit.Unary(limiter, limits)),
		grpc.ChainStreamInterceptor(grpclimit.Stream(limiter, limits)),
	)
	server.Stop()
	// Output:
}
