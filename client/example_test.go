package client_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/throttledhq/throttled/client"
)

// patience is the timeout in the examples, which may run on a busy machine.
const patience = time.Minute

// Each user may send 2 requests per hour, in all copies of the program together.
func ExampleClient_Allow() {
	rdb := redis.NewClient(&redis.Options{Addr: client.ExampleAddr})
	defer func() { _ = rdb.Close() }()
	c, err := client.New(rdb, client.Options{Timeout: patience})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close() // before rdb is closed, so that units can be returned
	limit, err := client.FixedWindow(2, time.Hour)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		d, err := c.Allow(context.Background(), "user:ann", limit)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(d.Admitted, d.Remaining, d.RetryAfter > 0)
	}
	// Output:
	// true 1 false
	// true 0 false
	// false 0 true
}

// Without a server, the requests are decided by the policy. Decisions are flagged, and have the reason.
func ExampleOptions() {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1}) // no server
	defer func() { _ = rdb.Close() }()
	c, err := client.New(rdb, client.Options{Away: client.Local, Share: 0.5, Timeout: patience})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	limit, err := client.Throttle(3, 4, time.Hour) // half of it: a burst of 2
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		d, err := c.Allow(context.Background(), "user:ann", limit)
		fmt.Println(d.Admitted, d.Flagged, errors.Is(d.Err, client.ErrAway), err)
	}
	fmt.Println(c.Stats().Flagged, "decisions without the server")
	// Output:
	// true true true <nil>
	// true true true <nil>
	// false true true <nil>
	// 3 decisions without the server
}
