package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/lessee"
	"github.com/throttledhq/throttled/lessee/courier"
	"github.com/throttledhq/throttled/limiter"
)

// Options has the settings of a Client. The zero value is valid.
type Options struct {
	// Lessee is the name of the process in the leases, 1 to 64 bytes. Two processes must not use the same
	// name. The default is random.
	Lessee string
	// Hold is the wanted validity of leases, 20 ms to 1 s. The default is 1 s. A changed limit and the deletion of a key take
	// effect within this time.
	Hold time.Duration
	// Relaxed draws leases that the server charges as of the draw. The limit may then admit more: at most the units that it
	// restores within Hold.
	Relaxed bool
	// Timeout is the longest time for which a request waits for the server. The default is 50 ms. A cluster that elects a
	// leader answers after up to leader-wait, 900 ms by default.
	Timeout time.Duration
	// Away decides requests that the server has not decided within Timeout.
	Away Policy
	// Share is the part of each limit that the policy Local admits in this process, greater than 0 and at most 1. The default
	// is 1. With n processes, 1/n keeps the sum within the limit. The part is at least one unit.
	Share float64
	// MaxKeys is the maximum number of keys for which leases are drawn. The default is 100,000. The server decides requests for keys
	// of more than 1 KiB.
	MaxKeys int
}

// ErrOptions is the error for Options that are out of range.
var ErrOptions = errors.New("invalid options")

func (o *Options) setDefaults() error {
	o.Lessee = cmp.Or(o.Lessee, "go-"+rand.Text())
	o.Hold = cmp.Or(o.Hold, limiter.MaxHold)
	o.Timeout = cmp.Or(o.Timeout, 50*time.Millisecond)
	o.Share = cmp.Or(o.Share, 1)
	switch {
	case len(o.Lessee) > limiter.MaxLessee:
		return fmt.Errorf("%w: Lessee must have at most %d bytes", ErrOptions, limiter.MaxLessee)
	case o.Hold < limiter.MinHold || o.Hold > limiter.MaxHold:
		return fmt.Errorf("%w: Hold must be %v to %v", ErrOptions, limiter.MinHold, limiter.MaxHold)
	case o.Timeout < 0:
		return fmt.Errorf("%w: Timeout must be positive", ErrOptions)
	case o.Away < Closed || o.Away > Local:
		return fmt.Errorf("%w: Away must be Closed, Open or Local", ErrOptions)
	case !(o.Share > 0 && o.Share <= 1): // also NaN
		return fmt.Errorf("%w: Share must be greater than 0 and at most 1, not %v", ErrOptions, o.Share)
	case o.MaxKeys < 0:
		return fmt.Errorf("%w: MaxKeys must be positive, not %d", ErrOptions, o.MaxKeys)
	}
	return nil
}

// Client decides requests with leased units.
type Client struct {
	ledger    *lessee.Ledger
	upstream  *upstream
	forwarder *forwarder
	away      away
	counts    counts

	closed  atomic.Bool
	stop    context.CancelFunc
	running sync.WaitGroup
}

// New returns a Client that uses a client of go-redis, which the caller closes after the Client. The error wraps
// ErrOptions.
//
// The timeouts of the client of go-redis do not affect requests. Its ReadTimeout and MaxRetries determine how long a
// connection is in use when the server does not answer. After a lost connection, go-redis sends commands again if MaxRetries
// permits it. A request may then be charged twice. Leased units are credited once.
func New(rdb Redis, o Options) (*Client, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	u := newUpstream(rdb, o.Timeout)
	ctx, stop := context.WithCancel(context.Background())
	c := &Client{
		ledger:   lessee.New(lessee.Config{Lessee: o.Lessee, Relaxed: o.Relaxed, Hold: o.Hold, MaxKeys: o.MaxKeys}),
		upstream: u, forwarder: newForwarder(u, o.Timeout), away: newAway(o.Away, o.Share), stop: stop,
	}
	// The answer to a draw is of no use after Hold, because the lease has ended then.
	courier := courier.Courier{Ledger: c.ledger, Conn: conn{u}, Timeout: o.Hold}
	c.running.Go(func() { courier.Run(ctx) })
	c.running.Go(func() { c.forwarder.run(ctx) })
	c.running.Go(func() { u.run(ctx) })
	return c, nil
}

// Allow decides a request of one unit, and charges it if it is admitted. See AllowN.
func (c *Client) Allow(ctx context.Context, key string, l Limit) (Decision, error) {
	return c.AllowN(ctx, key, l, 1)
}

// maxKey is the length of keys for which a decision needs no memory of the heap.
const maxKey = 128

// AllowN decides a request of n units, at least 1, and charges them if it is admitted. A refusal is not an error. The errors
// are ErrClosed, ErrLimit, ErrQuantity, ErrWrongKind, ErrServer, ErrReply, and the cause of ctx. After an error of ctx, or
// ErrClosed because of a concurrent call of Close, the request may have been charged.
func (c *Client) AllowN(ctx context.Context, key string, l Limit, n int64) (Decision, error) {
	if err := c.check(&l, n); err != nil {
		return Decision{}, err
	}
	var buf [maxKey]byte
	var d limiter.Decision
	req := limiter.Request{Kind: l.kind, Key: append(buf[:0], key...), Limit: l.limit, Quantity: n}
	if c.ledger.Decide(&req, lessee.Now(), &d) {
		return decision(&d, FromLease), nil
	}
	ds, err := c.forward(ctx, []Charge{{key, l}}, n)
	if err != nil {
		return Decision{}, err
	}
	return ds[0], nil
}

// check returns an error for a request that no server can decide.
func (c *Client) check(l *Limit, n int64) error {
	switch {
	case c.closed.Load():
		return ErrClosed
	case l.kind == 0:
		return fmt.Errorf("%w: use Throttle, SlidingWindow, FixedWindow, WindowLog or Bucket", ErrLimit)
	case n < 1:
		return fmt.Errorf("%w: %d", ErrQuantity, n)
	}
	return nil
}

// forward decides a request that needs the server. It returns a decision for each limit.
func (c *Client) forward(ctx context.Context, charges []Charge, n int64) ([]Decision, error) {
	if c.upstream.down.Load() {
		return c.undecided(charges, n, ErrAway), nil
	}
	reply, err := c.forwarder.ask(ctx, command(charges, n))
	switch {
	case err == nil:
	case ctx.Err() != nil, errors.Is(err, ErrClosed):
		return nil, fmt.Errorf("check a limit: %w", err)
	default:
		return c.undecided(charges, n, err), nil
	}
	if err, failed := reply.(error); failed {
		class := classify(err)
		if class.undecided {
			return c.undecided(charges, n, class.err), nil
		}
		return nil, class.err
	}
	ds, err := parseAll(reply, len(charges))
	if err == nil {
		c.counts.count(Deciding(ds).Admitted)
	}
	return ds, err
}

// undecided decides a request that the server has not decided because of err.
func (c *Client) undecided(charges []Charge, n int64, err error) []Decision {
	c.counts.flagged.Add(1)
	out := c.away.decide(charges, n)
	ds := make([]Decision, len(out))
	for i := range out {
		ds[i] = decision(&out[i], FromPolicy)
		ds[i].Flagged, ds[i].Err = true, err
	}
	return ds
}

// Close returns the units that are not used to the server, and stops the Client. It waits for the server for at most twice
// Options.Hold. It may be called several times.
func (c *Client) Close() {
	c.closed.Store(true)
	c.stop()
	c.running.Wait()
}
