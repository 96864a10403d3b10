package main

import (
	"context"
	"crypto/tls"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/mediocregopher/radix/v4"
	"github.com/mediocregopher/radix/v4/resp/resp3"
)

// radixTimeout is the timeout of an attempt. A node waits for a leader for up to 900 ms.
const radixTimeout = time.Second

// radixSync is the interval at which the cluster client reads the topology. It asks a random node, also one that is lost, and
// waits for the reply for this time.
const radixSync = 250 * time.Millisecond

// radixClient is a pool, a cluster or a client of Sentinel.
type radixClient struct {
	doer interface {
		Do(ctx context.Context, action radix.Action) error
	}
	count *atomic.Int64 // of the calls that were repeated
}

func openRadix(ctx context.Context, o options) (c client, err error) {
	config, err := o.tlsConfig()
	if err != nil {
		return nil, err
	}
	dialer := radix.Dialer{AuthUser: o.user, AuthPass: o.password}
	if o.resp != 0 {
		dialer.Protocol = strconv.Itoa(o.resp)
	}
	if config != nil {
		dialer.NetDialer = &tls.Dialer{Config: config}
	}
	r := radixClient{count: new(atomic.Int64)}
	pool := radix.PoolConfig{Dialer: dialer}
	switch o.mode {
	case "cluster":
		r.doer, err = radix.ClusterConfig{PoolConfig: pool, SyncEvery: radixSync}.New(ctx, o.addresses)
	case "sentinel":
		r.doer, err = radix.SentinelConfig{PoolConfig: pool, SentinelDialer: dialer}.New(ctx, masterName, o.addresses)
	default:
		r.doer, err = pool.New(ctx, "tcp", o.addresses[0])
	}
	return r, err
}

func (c radixClient) throttle(ctx context.Context, args []string) (decision []int64, err error) {
	err = c.repeat(ctx, radix.Cmd(&decision, command, args...))
	return decision, err
}

// repeat repeats a call until it succeeds, the server returns an error, or ctx is done. The library does not repeat calls,
// and calls to a node that is down wait until their context is done.
func (c radixClient) repeat(ctx context.Context, action radix.Action) error {
	for n := 1; ; n++ {
		err := c.attempt(ctx, action)
		if err == nil || c.ownError(err) || ctx.Err() != nil {
			return err
		}
		if n == 1 {
			c.count.Add(1)
		}
		time.Sleep(callPause) // as between the calls of all drivers
	}
}

func (c radixClient) repeated() int64 { return c.count.Load() }

func (c radixClient) attempt(ctx context.Context, action radix.Action) error {
	ctx, cancel := context.WithTimeout(ctx, radixTimeout)
	defer cancel()
	return c.doer.Do(ctx, action)
}

func (c radixClient) pipeline(ctx context.Context, args []string, n int) ([][]int64, error) {
	list := make([][]int64, n)
	p := radix.NewPipeline()
	for i := range list {
		p.Append(radix.Cmd(&list[i], command, args...))
	}
	return list, c.doer.Do(ctx, p)
}

func (c radixClient) transaction(ctx context.Context, args []string, n int) (list [][]int64, err error) {
	err = c.doer.Do(ctx, radix.WithConn(args[0], func(ctx context.Context, conn radix.Conn) error {
		p := radix.NewPipeline()
		p.Append(radix.Cmd(nil, "MULTI"))
		for range n {
			p.Append(radix.Cmd(nil, command, args...))
		}
		p.Append(radix.Cmd(&list, "EXEC"))
		return conn.Do(ctx, p)
	}))
	return list, err
}

func (c radixClient) ownError(err error) bool {
	var own resp3.SimpleError
	return errors.As(err, &own)
}
