package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// goRedisRetries replaces the default of three quick retries, which take less time than an election.
const goRedisRetries = 8

// A client of Sentinel has these settings. They also apply to its questions to a Sentinel that is lost, during which all
// calls wait: with the default of five dials for each retry, that takes more than four seconds.
const (
	failoverRetries  = 10
	failoverDials    = 1
	failoverInterval = 100 * time.Millisecond // longest pause between two retries
	// failoverPool is the size of the pool. After as many failed dials, the pool dials once per second only.
	failoverPool = 200
)

type goRedis struct{ redis.UniversalClient }

func openGoRedis(_ context.Context, o options) (client, error) {
	logging.Disable()
	config, err := o.tlsConfig()
	if err != nil {
		return nil, err
	}
	switch o.mode {
	case "cluster":
		return goRedis{redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: o.addresses, Username: o.user, Password: o.password, Protocol: o.resp, TLSConfig: config,
			MaxRedirects: goRedisRetries, ClusterStateReloadInterval: time.Second,
		})}, nil
	case "sentinel":
		return goRedis{redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: masterName, SentinelAddrs: o.addresses, SentinelUsername: o.user, SentinelPassword: o.password,
			Username: o.user, Password: o.password, Protocol: o.resp, TLSConfig: config,
			MaxRetries: failoverRetries, MaxRetryBackoff: failoverInterval, DialerRetries: failoverDials, PoolSize: failoverPool,
		})}, nil
	}
	return goRedis{redis.NewClient(&redis.Options{
		Addr: o.addresses[0], Username: o.user, Password: o.password, Protocol: o.resp, TLSConfig: config, MaxRetries: goRedisRetries,
	})}, nil
}

func words(args []string) []any { return append([]any{command}, anyArgs(args...)...) }

func (c goRedis) throttle(ctx context.Context, args []string) ([]int64, error) {
	return c.Do(ctx, words(args)...).Int64Slice()
}

func (c goRedis) pipeline(ctx context.Context, args []string, n int) ([][]int64, error) {
	return many(ctx, c.Pipeline(), args, n)
}

func (c goRedis) transaction(ctx context.Context, args []string, n int) ([][]int64, error) {
	return many(ctx, c.TxPipeline(), args, n)
}

func many(ctx context.Context, p redis.Pipeliner, args []string, n int) ([][]int64, error) {
	for range n {
		p.Do(ctx, words(args)...)
	}
	commands, err := p.Exec(ctx)
	if err != nil {
		return nil, err
	}
	list := make([][]int64, n)
	for i, c := range commands {
		if list[i], err = c.(*redis.Cmd).Int64Slice(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (c goRedis) ownError(err error) bool {
	var own redis.Error
	return errors.As(err, &own)
}
