package main

import (
	"context"
	"errors"

	"github.com/gomodule/redigo/redis"
)

type redigo struct{ *redis.Pool }

// openRedigo opens a pool, which is how redigo is used by several goroutines.
func openRedigo(_ context.Context, o options) (client, error) {
	config, err := o.tlsConfig()
	if err != nil || o.mode != "standalone" {
		return nil, errors.Join(err, errMode)
	}
	dial := []redis.DialOption{redis.DialUsername(o.user), redis.DialPassword(o.password)}
	if config != nil {
		dial = append(dial, redis.DialUseTLS(true), redis.DialTLSConfig(config))
	}
	return redigo{&redis.Pool{MaxIdle: 10, DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", o.addresses[0], dial...)
	}}}, nil
}

func (c redigo) throttle(ctx context.Context, args []string) ([]int64, error) {
	conn, err := c.GetContext(ctx)
	if err != nil {
		return nil, err
	}
	list, err := redis.Int64s(redis.DoContext(conn, ctx, command, anyArgs(args...)...))
	return list, errors.Join(err, conn.Close())
}

func (c redigo) pipeline(ctx context.Context, args []string, n int) (list [][]int64, err error) {
	conn, err := c.GetContext(ctx)
	if err != nil {
		return nil, err
	}
	for range n {
		err = errors.Join(err, conn.Send(command, anyArgs(args...)...))
	}
	err = errors.Join(err, conn.Flush())
	for i := 0; i < n && err == nil; i++ {
		var decision []int64
		decision, err = redis.Int64s(redis.ReceiveContext(conn, ctx))
		list = append(list, decision)
	}
	return list, errors.Join(err, conn.Close())
}

func (c redigo) transaction(ctx context.Context, args []string, n int) (list [][]int64, err error) {
	conn, err := c.GetContext(ctx)
	if err != nil {
		return nil, err
	}
	err = conn.Send("MULTI")
	for range n {
		err = errors.Join(err, conn.Send(command, anyArgs(args...)...))
	}
	values, execErr := redis.Values(redis.DoContext(conn, ctx, "EXEC"))
	err = errors.Join(err, execErr, conn.Close())
	for _, value := range values {
		decision, valueErr := redis.Int64s(value, nil)
		list, err = append(list, decision), errors.Join(err, valueErr)
	}
	return list, err
}

func (c redigo) ownError(err error) bool {
	var own redis.Error
	return errors.As(err, &own)
}
