// Package courier sends the calls of a lessee.Ledger to the authority of its limits.
//
// [Courier.Run] sends draws and returns in batches over a [Conn], which the caller provides: a client library, or a
// connection of a sidecar. Answers that do not arrive within the timeout count as failures: the ledger draws again later, and
// units of a lease whose answer was lost are restored when the lease has ended.
package courier

import (
	"context"
	"sync"
	"time"

	"github.com/throttledhq/throttled/lessee"
	"github.com/throttledhq/throttled/limiter"
)

// Conn sends commands to the authority.
type Conn interface {
	// Do sends the commands in order, and returns their replies, or an error if not all of them arrived. A reply is an
	// int64, a string, an error, or a []any of replies. Do is called concurrently.
	Do(ctx context.Context, commands [][]string) ([]any, error)
}

// Limits of a Courier.
const (
	maxBatch    = 128                  // calls in one batch
	maxInFlight = 8                    // batches that are not answered
	pause       = 5 * time.Millisecond // interval in which the ledger is asked for calls that become due
)

// Courier sends the calls of one ledger.
type Courier struct {
	Ledger  *lessee.Ledger
	Conn    Conn
	Timeout time.Duration // maximum wait for the answers to a batch
}

// Run sends calls until ctx is done. It then waits for the answers to calls that it has sent, and returns all units in hand,
// each for at most the timeout.
func (c *Courier) Run(ctx context.Context) {
	var batches sync.WaitGroup
	slots := make(chan struct{}, maxInFlight)
	for c.wait(ctx) {
		for take(ctx, slots) {
			calls := c.collect()
			if len(calls) == 0 {
				<-slots
				break
			}
			batches.Go(func() {
				c.send(context.WithoutCancel(ctx), calls)
				<-slots
			})
		}
	}
	batches.Wait()
	c.returnAll(context.WithoutCancel(ctx))
}

// take takes a slot, and returns false when ctx is done.
func take(ctx context.Context, slots chan<- struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case slots <- struct{}{}:
		return ctx.Err() == nil
	}
}

// returnAll returns all units in hand. Units that it cannot return within the timeout are restored after the end of their
// leases.
func (c *Courier) returnAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	c.Ledger.Close(lessee.Now())
	for calls := c.collect(); len(calls) > 0 && ctx.Err() == nil; calls = c.collect() {
		c.send(ctx, calls)
	}
}

// wait waits until there may be calls, and returns false when ctx is done. A ledger without keys causes no wake-ups.
func (c *Courier) wait(ctx context.Context) bool {
	var due <-chan time.Time
	if c.Ledger.Tracks() {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-c.Ledger.Wake():
	case <-due:
	}
	return true
}

// collect returns the next calls of the ledger.
func (c *Courier) collect() (calls []lessee.Call) {
	for len(calls) < maxBatch {
		call, ok := c.Ledger.Next(lessee.Now())
		if !ok {
			break
		}
		calls = append(calls, call)
	}
	return calls
}

// send sends a batch of calls, and passes the answers to the ledger.
func (c *Courier) send(ctx context.Context, calls []lessee.Call) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	commands := make([][]string, len(calls))
	for i := range calls {
		commands[i] = calls[i].Args()
	}
	replies, err := c.Conn.Do(ctx, commands)
	now := lessee.Now()
	for i := range calls {
		if calls[i].Request.Draw.Return {
			continue
		}
		d := limiter.Decision{Err: err}
		if i < len(replies) {
			d = answer(&calls[i], replies[i])
		}
		c.Ledger.Drawn(&calls[i], now, &d)
	}
}
