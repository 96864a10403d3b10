package lessee

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// Args returns the command of the Redis protocol that makes a call: CL.LEASE or CL.LEASE.RETURN.
func (c *Call) Args() []string {
	req, d := &c.Request, c.Request.Draw
	quantity := strconv.FormatInt(req.Quantity, 10)
	if d.Return {
		args := []string{"CL.LEASE.RETURN", string(limiter.AppendLeaseID(nil, d.ID, req.Key)), quantity}
		if d.Of != 0 {
			args = append(args, "OF", strconv.FormatInt(d.Of, 10))
		}
		return args
	}
	args := []string{
		"CL.LEASE", quantity, strconv.FormatInt(d.Hold.Milliseconds(), 10), "RAW", string(req.Key), req.Kind.Raw(),
		strconv.FormatInt(req.Limit.Max, 10), strconv.FormatInt(int64(req.Limit.Interval), 10), strconv.FormatInt(req.Limit.Amount, 10),
		"LESSEE", d.Lessee,
	}
	if d.Relaxed {
		args = append(args, "RELAXED")
	}
	return args
}

// Reply is the reply to CL.LEASE: seven integers and the name of the lease.
type Reply struct {
	Ints [7]int64 // granted, valid in ms, limited, limit, remaining, retry after in ms, reset after in ms
	Name string
}

var errReply = errors.New("malformed reply to CL.LEASE")

// Answer stores the results of a draw in the Draw of a call, and returns the decision to pass to Drawn. The Err of the
// decision is set if the reply is malformed, or grants more than was requested.
func (c *Call) Answer(r *Reply) limiter.Decision {
	d := c.Request.Draw
	if r.Ints[0] > 0 {
		id, key, ok := limiter.ParseLeaseID([]byte(r.Name))
		if !ok || string(key) != string(c.Request.Key) || r.Ints[0] > c.Request.Quantity || r.Ints[1] > d.Hold.Milliseconds() {
			return limiter.Decision{Err: fmt.Errorf("%w: %v %q", errReply, r.Ints, r.Name)}
		}
		d.ID = id
	}
	d.Granted, d.Valid = r.Ints[0], milliseconds(r.Ints[1])
	return limiter.Decision{
		Limited: r.Ints[2] != 0, Limit: r.Ints[3], Remaining: r.Ints[4], RetryAfter: retryAfter(r.Ints[5]), ResetAfter: milliseconds(r.Ints[6]),
	}
}

// longest is the longest time in an answer. The sum of it and the time of a Ledger does not overflow.
const longest = 200 * 365 * 24 * time.Hour

// milliseconds converts a number. It returns 0 for a negative number, and longest for a longer time.
func milliseconds(n int64) time.Duration {
	return time.Duration(max(0, min(n, longest.Milliseconds()))) * time.Millisecond
}

func retryAfter(ms int64) time.Duration {
	if ms < 0 {
		return limiter.NoRetry
	}
	return milliseconds(ms)
}
