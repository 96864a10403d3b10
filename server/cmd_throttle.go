package server

import (
	"github.com/throttledhq/throttled/gcra"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/resp"
)

// parseThrottle reads CL.THROTTLE key max_burst count period [quantity].
func parseThrottle(args [][]byte, req *limiter.Request) error {
	if len(args) > 6 {
		return errArity("cl.throttle")
	}
	numbers := [...]int64{0, 0, 0, 1}
	for i, arg := range args[2:] {
		n, ok := resp.ParseSigned(arg)
		if !ok {
			return errNotInteger
		}
		numbers[i] = n
	}
	limit, err := gcra.NewLimit(numbers[0], numbers[1], limiter.Seconds(numbers[2]))
	if err != nil {
		return errNotInteger
	}
	*req = limiter.Request{Kind: limiter.Throttle, Key: args[1], Limit: limit, Quantity: numbers[3]}
	return nil
}
