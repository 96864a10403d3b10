package leaky_test

import (
	"fmt"

	"github.com/throttledhq/throttled/leaky"
	"github.com/throttledhq/throttled/limiter"
)

// Four requests arrive at the same time. Three of them fit in the queue and leave half a
// second apart.
func ExampleDecide() {
	l, err := leaky.NewLimit(3, 2, limiter.Seconds(1))
	if err != nil {
		fmt.Println(err)
		return
	}
	var state limiter.State // a fresh key
	for range 4 {
		c, d := leaky.Decide(&l, state, 1_000_000_000, 1, nil)
		if c.Set {
			state = limiter.State{Expires: c.Expires}
		}
		fmt.Printf("limited %t, wait %v, %d of %d left, retry after %v, empty after %v\n",
			d.Limited, d.Wait, d.Remaining, d.Limit, d.RetryAfter, d.ResetAfter)
	}
	// Output:
	// limited false, wait 0s, 2 of 3 left, retry after -1ns, empty after 500ms
	// limited false, wait 500ms, 1 of 3 left, retry after -1ns, empty after 1s
	// limited false, wait 1s, 0 of 3 left, retry after -1ns, empty after 1.5s
	// limited true, wait -1ns, 0 of 3 left, retry after 500ms, empty after 1.5s
}

func ExampleNewLimit() {
	l, err := leaky.NewLimit(16, 30, limiter.Seconds(60))
	fmt.Println(l.Max, l.Interval, err)
	_, err = leaky.NewLimit(0, 30, limiter.Seconds(60))
	fmt.Println(err)
	// Output:
	// 16 2s <nil>
	// rate limit parameters out of range
}
