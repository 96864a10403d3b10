package clienttests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

type redigo struct{ pool *redis.Pool }

func openRedigo(_ context.Context, addr string, s settings) (client, error) {
	return redigo{&redis.Pool{
		MaxIdle:   poolSize,
		MaxActive: poolSize,
		Wait:      true,
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "tcp", addr, redis.DialUsername(s.user),
				redis.DialPassword(s.password), redis.DialClientName(s.clientName))
		},
	}}, nil
}

// borrow runs f with a connection of the pool.
func (r redigo) borrow(ctx context.Context, f func(conn redis.Conn) error) error {
	conn, err := r.pool.GetContext(ctx)
	if err != nil {
		return err
	}
	return errors.Join(f(conn), conn.Close())
}

func (r redigo) do(ctx context.Context, args ...string) (v any, err error) {
	err = r.pinned(ctx, func(do doFunc) error {
		v, err = do(ctx, args...)
		return err
	})
	return v, err
}

func (r redigo) pinned(ctx context.Context, f func(do doFunc) error) error {
	return r.borrow(ctx, func(conn redis.Conn) error {
		return f(func(ctx context.Context, args ...string) (any, error) {
			v, err := redis.DoContext(conn, ctx, args[0], words(args[1:])...)
			return plain(v), err
		})
	})
}

func (r redigo) pipeline(ctx context.Context, commands [][]string) []reply {
	list := make([]reply, len(commands))
	err := r.borrow(ctx, func(conn redis.Conn) error {
		for _, args := range commands {
			if err := conn.Send(args[0], words(args[1:])...); err != nil {
				return err
			}
		}
		if err := conn.Flush(); err != nil {
			return err
		}
		for i := range list {
			v, err := redis.ReceiveContext(conn, ctx)
			list[i] = reply{plain(v), err}
		}
		return nil
	})
	if err != nil {
		return []reply{{err: err}}
	}
	return list
}

func (r redigo) transaction(ctx context.Context, commands [][]string) (list []reply, err error) {
	err = r.borrow(ctx, func(conn redis.Conn) error {
		if err := conn.Send("MULTI"); err != nil {
			return err
		}
		for _, args := range commands {
			if err := conn.Send(args[0], words(args[1:])...); err != nil {
				return err
			}
		}
		values, err := redis.Values(redis.DoContext(conn, ctx, "EXEC"))
		list = replies(values)
		return err
	})
	return list, err
}

func (r redigo) close() error { return r.pool.Close() }

// TestRedigo_PoolCleansUp checks that the pool resets the state of a returned connection, and
// reuses the connection.
func TestRedigo_PoolCleansUp(t *testing.T) {
	srv := start(t, "")
	dialled := 0
	pool := &redis.Pool{
		MaxIdle: 1,
		Dial: func() (redis.Conn, error) {
			dialled++
			return redis.DialURL("redis://" + srv.addr + "/0")
		},
		TestOnBorrow: func(conn redis.Conn, _ time.Time) error {
			_, err := conn.Do("PING")
			return err
		},
	}
	for _, leave := range []string{"MULTI", "WATCH key", "SUBSCRIBE news", "PSUBSCRIBE n*", "PING"} {
		conn := pool.Get()
		words := redis.Args{}.AddFlat(strings.Fields(leave))
		if _, err := conn.Do(words[0].(string), words[1:]...); err != nil {
			t.Errorf("command %s: %v", leave, err)
		}
		if err := conn.Close(); err != nil {
			t.Errorf("close the connection after %s: %v", leave, err)
		}
		next := pool.Get()
		d, err := redis.Int64s(next.Do("CL.THROTTLE", leave, 1, 1, 60))
		if want := []int64{0, 2, 1, -1, 60}; err != nil || !slices.Equal(d, want) {
			t.Errorf("after %s: got %v, error %v; want %v", leave, d, err, want)
		}
		if err := next.Close(); err != nil {
			t.Error(err)
		}
	}
	if dialled != 1 {
		t.Errorf("the pool has opened %d connections, want 1", dialled)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
}

func TestRedigo_ScanAndSubscribe(t *testing.T) {
	srv := start(t, "")
	conn, err := redis.DialContext(t.Context(), "tcp", srv.addr, redis.DialReadTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // all replies have been read
	for i := range 300 {
		if err := conn.Send("CL.THROTTLE", fmt.Sprint("user:", i), 1, 1, 3600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Do(""); err != nil {
		t.Fatal(err)
	}
	found, cursor := map[string]bool{}, "0"
	for first := true; first || cursor != "0"; first = false {
		page, err := redis.Values(conn.Do("SCAN", cursor, "MATCH", "user:*"))
		var keys []string
		if err == nil {
			_, err = redis.Scan(page, &cursor, &keys)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			found[key] = true
		}
	}
	if len(found) != 300 {
		t.Errorf("found %d keys, want 300", len(found))
	}

	sub := redis.PubSubConn{Conn: conn}
	for _, step := range []struct {
		send func() error
		want any
	}{
		{func() error { return sub.Subscribe("news") }, redis.Subscription{Kind: "subscribe", Channel: "news", Count: 1}},
		{func() error { return sub.PSubscribe("n*") }, redis.Subscription{Kind: "psubscribe", Channel: "n*", Count: 2}},
		{func() error { return sub.Ping("hello") }, redis.Pong{Data: "hello"}},
		{func() error { return sub.Unsubscribe() }, redis.Subscription{Kind: "unsubscribe", Channel: "news", Count: 1}},
		{func() error { return sub.PUnsubscribe() }, redis.Subscription{Kind: "punsubscribe", Channel: "n*", Count: 0}},
	} {
		if err := step.send(); err != nil {
			t.Fatal(err)
		}
		if got := sub.Receive(); got != step.want {
			t.Fatalf("got %#v, want %#v", got, step.want)
		}
	}
	if pong, err := redis.String(conn.Do("PING")); err != nil || pong != "PONG" {
		t.Errorf("PING after unsubscribing: got %q, want PONG; error %v", pong, err)
	}
}
