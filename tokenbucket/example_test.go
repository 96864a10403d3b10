package tokenbucket_test

import (
	"fmt"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/tokenbucket"
)

// The limit is ten failed logins. Every hour, one more failed login is admitted.
func ExampleDecide() {
	l, err := tokenbucket.NewLimit(10, 1, limiter.Seconds(3600))
	if err != nil {
		fmt.Println(err)
		return
	}
	var state limiter.State // a fresh key
	room := make([]byte, 64)
	now := uint64(1_000_000_000)
	for _, failed := range []int64{9, 1, 1} {
		c, d := tokenbucket.Decide(&l, state, now, failed, room)
		if c.Set {
			state.Expires = c.Expires
			state.Data = append(state.Data[:c.Keep], c.Tail...)
		}
		fmt.Printf("limited %t, %d of %d left, retry after %v, full after %v\n",
			d.Limited, d.Remaining, d.Limit, d.RetryAfter.Truncate(time.Second), d.ResetAfter)
		now += uint64(15 * time.Minute)
	}
	// Output:
	// limited false, 1 of 10 left, retry after 0s, full after 9h0m0s
	// limited false, 0 of 10 left, retry after 0s, full after 9h45m0s
	// limited true, 0 of 10 left, retry after 30m0s, full after 9h30m0s
}

// A quantity can be an amount of money: $200 a day, refilled with $50 every six hours.
func ExampleNewLimit() {
	l, err := tokenbucket.NewLimit(200, 50, limiter.Seconds(6*3600))
	fmt.Println(l.Max, l.Amount, l.Interval, err)
	_, err = tokenbucket.NewLimit(200, 0, limiter.Seconds(6*3600))
	fmt.Println(err)
	// Output:
	// 200 50 6h0m0s <nil>
	// rate limit parameters out of range
}
