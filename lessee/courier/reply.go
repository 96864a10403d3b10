package courier

import (
	"errors"
	"fmt"
	"strings"

	"github.com/throttledhq/throttled/lessee"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/topology"
)

var errReply = errors.New("unexpected reply to CL.LEASE")

// answer returns the decision on a draw. Its Err is set if the reply is an error, or is not one to CL.LEASE.
func answer(c *lessee.Call, reply any) limiter.Decision {
	if err, failed := reply.(error); failed {
		return limiter.Decision{Err: drawError(err)}
	}
	list, _ := reply.([]any)
	var r lessee.Reply
	if len(list) != len(r.Ints)+1 {
		return limiter.Decision{Err: fmt.Errorf("%w: %v", errReply, reply)}
	}
	for i := range r.Ints {
		n, ok := list[i].(int64)
		if !ok {
			return limiter.Decision{Err: fmt.Errorf("%w: %v", errReply, reply)}
		}
		r.Ints[i] = n
	}
	r.Name, _ = list[len(r.Ints)].(string)
	return c.Answer(&r)
}

// drawError returns the error of a draw for an error reply. It wraps lessee.ErrNotAccepted if the error is not a temporary one.
func drawError(err error) error {
	if IsRefusal(err) {
		return fmt.Errorf("%w: %w", lessee.ErrNotAccepted, err)
	}
	return err
}

// IsRefusal reports whether an error reply to a draw is not a temporary one, so that the same draw would be refused again. The
// refusal of a connection is a temporary error.
func IsRefusal(err error) bool {
	text := err.Error()
	return strings.HasPrefix(text, "NOPERM ") || strings.HasPrefix(text, "ERR ") && !topology.RefusesConn(text)
}
