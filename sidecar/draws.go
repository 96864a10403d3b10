package sidecar

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/throttledhq/throttled/internal/lograte"
	"github.com/throttledhq/throttled/lessee/courier"
)

// draws is the courier.Conn of a sidecar. It records error replies to draws that are not temporary, such as that of a user
// without the permission for CL.LEASE: without a message, the sidecar would forward all requests for no apparent reason.
type draws struct {
	*Commands
	log   *slog.Logger
	lines *lograte.Limiter

	mu     sync.Mutex
	failed string // the error reply to the last draw with a reply; empty if it was accepted
}

// Do sends commands, see Commands.Do, and records the replies to draws.
func (d *draws) Do(ctx context.Context, commands [][]string) ([]any, error) {
	replies, err := d.Commands.Do(ctx, commands)
	for i, reply := range replies {
		if commands[i][0] == "CL.LEASE" {
			d.record(reply)
		}
	}
	return replies, err
}

// record records the reply to a draw, and logs an error. The same error is logged once an hour.
func (d *draws) record(reply any) {
	refused, isError := reply.(replyError)
	if isError && !courier.IsRefusal(refused) {
		return
	}
	d.mu.Lock()
	d.failed = string(refused)
	d.mu.Unlock()
	if !isError {
		return
	}
	if _, ok := d.lines.Allow(string(refused), time.Now()); ok {
		d.log.Warn("the upstream refuses to lease units: requests are forwarded", "user", d.Upstream.User(), "error", refused)
	}
}

// lastError returns the error reply to the last draw, or an empty string if it was accepted.
func (d *draws) lastError() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}
