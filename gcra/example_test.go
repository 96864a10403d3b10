package gcra_test

import (
	"fmt"
	"time"

	"github.com/throttledhq/throttled/gcra"
	"github.com/throttledhq/throttled/limiter"
)

// Four requests for one unit arrive at the same time. The limit admits three of them. One unit is
// restored each second.
func ExampleDecide() {
	l, err := gcra.NewLimit(2, 60, limiter.Seconds(60))
	if err != nil {
		fmt.Println(err)
		return
	}
	tat, now := uint64(0), uint64(1_000_000_000) // a new key, at time 1 s
	for range 4 {
		var d limiter.Decision
		tat, d = gcra.Decide(l, tat, now, 1)
		fmt.Printf("limited %t, %d of %d left, retry after %d s, full after %d s\n",
			d.Limited, d.Remaining, d.Limit, limiter.Ceil(d.RetryAfter, time.Second), limiter.Ceil(d.ResetAfter, time.Second))
	}
	// Output:
	// limited false, 2 of 3 left, retry after -1 s, full after 1 s
	// limited false, 1 of 3 left, retry after -1 s, full after 2 s
	// limited false, 0 of 3 left, retry after -1 s, full after 3 s
	// limited true, 0 of 3 left, retry after 1 s, full after 3 s
}

// A quantity of 0 peeks, and a negative quantity refunds.
func ExampleDecide_peekAndRefund() {
	l, _ := gcra.NewLimit(9, 10, limiter.Seconds(1))
	const now = 1_000_000_000
	tat, _ := gcra.Decide(l, 0, now, 7)
	tat, d := gcra.Decide(l, tat, now, 0)
	fmt.Println("after 7:", d.Remaining, d.ResetAfter)
	tat, d = gcra.Decide(l, tat, now, -3)
	fmt.Println("3 refunded:", d.Remaining, d.ResetAfter)
	tat, d = gcra.Decide(l, tat, now, -100)
	fmt.Println("100 refunded:", d.Remaining, d.ResetAfter, "at rest:", tat <= now)
	// Output:
	// after 7: 3 700ms
	// 3 refunded: 6 400ms
	// 100 refunded: 10 0s at rest: true
}

func ExampleNewLimit() {
	l, err := gcra.NewLimit(15, 30, limiter.Seconds(60))
	fmt.Println(l.Max, l.Interval, err)
	l, err = gcra.NewLimit(0, 3, limiter.Seconds(1))
	fmt.Println(l.Max, l.Interval, err)
	_, err = gcra.NewLimit(15, 0, limiter.Seconds(60))
	fmt.Println(err)
	// Output:
	// 16 2s <nil>
	// 1 333.333334ms <nil>
	// rate limit parameters out of range
}
