package windowlog_test

import (
	"fmt"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/windowlog"
)

// The limit admits three requests in any ten seconds. The fourth request is refused until the first
// one has expired.
func ExampleDecide() {
	l, err := windowlog.NewLimit(3, limiter.Seconds(10), 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	var state limiter.State // a fresh key
	room := make([]byte, 1024)
	now := uint64(1_000_000_000)
	for range 5 {
		c, d := windowlog.Decide(&l, state, now, 1, room)
		if c.Set {
			state.Expires = c.Expires
			state.Data = append(state.Data[:c.Keep], c.Tail...)
		}
		fmt.Printf("limited %t, %d of %d left, retry after %d s, full after %d s\n",
			d.Limited, d.Remaining, d.Limit, limiter.Ceil(d.RetryAfter, time.Second), limiter.Ceil(d.ResetAfter, time.Second))
		now += uint64(2500 * time.Millisecond)
	}
	// Output:
	// limited false, 2 of 3 left, retry after -1 s, full after 10 s
	// limited false, 1 of 3 left, retry after -1 s, full after 10 s
	// limited false, 0 of 3 left, retry after -1 s, full after 10 s
	// limited true, 0 of 3 left, retry after 3 s, full after 8 s
	// limited false, 0 of 3 left, retry after -1 s, full after 10 s
}

// A request may charge several units. They can be refunded later.
func ExampleDecide_refund() {
	l, _ := windowlog.NewLimit(100, limiter.Seconds(60), 50)
	const now = 1_000_000_000
	c, d := windowlog.Decide(&l, limiter.State{}, now, 70, nil)
	fmt.Println("after 70:", d.Remaining)
	state := limiter.State{Expires: c.Expires, Data: c.Tail}
	_, d = windowlog.Decide(&l, state, now, -20, nil)
	fmt.Println("20 refunded:", d.Remaining)
	// Output:
	// after 70: 30
	// 20 refunded: 50
}

func ExampleNewLimit() {
	l, err := windowlog.NewLimit(100, limiter.Seconds(3600), 100)
	fmt.Println(l.Max, l.Interval, l.Amount, err)
	_, err = windowlog.NewLimit(100, limiter.Seconds(3600), windowlog.MaxEntries+1)
	fmt.Println(err)
	// Output:
	// 100 1h0m0s 100 <nil>
	// rate limit parameters out of range
}
