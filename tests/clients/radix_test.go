package clienttests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/mediocregopher/radix/v4"
	"github.com/mediocregopher/radix/v4/resp"
	"github.com/mediocregopher/radix/v4/resp/resp3"
)

type radixClient struct{ c radix.Client }

func openRadix(ctx context.Context, addr string, s settings) (client, error) {
	dialer := radix.Dialer{AuthUser: s.user, AuthPass: s.password}
	if s.protocol != 0 {
		dialer.Protocol = strconv.Itoa(s.protocol)
	}
	c, err := radix.PoolConfig{Dialer: dialer, Size: poolSize}.New(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return radixClient{c}, nil
}

// radixDo receives raw replies, since the library would convert a null array to an empty list.
func radixDo(c radix.Client) doFunc {
	return func(ctx context.Context, args ...string) (any, error) {
		var raw resp3.RawMessage
		if err := c.Do(ctx, radix.Cmd(&raw, args[0], args[1:]...)); err != nil {
			return nil, err
		}
		return radixReply(raw)
	}
}

// radixReply decodes a reply. It returns an error reply as the error of the server, without the
// prefix that the library adds.
func radixReply(raw resp3.RawMessage) (any, error) {
	if raw.IsNull() {
		return nil, nil
	}
	var v any
	err := raw.UnmarshalInto(&v, resp.NewOpts())
	var refused resp3.SimpleError
	if errors.As(err, &refused) {
		err = refused
	}
	return plain(v), err
}

func (r radixClient) do(ctx context.Context, args ...string) (any, error) {
	return radixDo(r.c)(ctx, args...)
}

func (r radixClient) pipeline(ctx context.Context, commands [][]string) []reply {
	p := radix.NewPipeline()
	raw := make([]resp3.RawMessage, len(commands))
	for i, args := range commands {
		p.Append(radix.Cmd(&raw[i], args[0], args[1:]...))
	}
	if err := r.c.Do(ctx, p); err != nil {
		return []reply{{err: err}}
	}
	list := make([]reply, len(commands))
	for i := range raw {
		list[i].value, list[i].err = radixReply(raw[i])
	}
	return list
}

func (r radixClient) transaction(ctx context.Context, commands [][]string) (list []reply, err error) {
	err = r.c.Do(ctx, radix.WithConn("", func(ctx context.Context, conn radix.Conn) error {
		p := radix.NewPipeline()
		p.Append(radix.Cmd(nil, "MULTI"))
		for _, args := range commands {
			p.Append(radix.Cmd(nil, args[0], args[1:]...))
		}
		var values []any
		p.Append(radix.Cmd(&values, "EXEC"))
		err := conn.Do(ctx, p)
		list = replies(values)
		return err
	}))
	return list, err
}

func (r radixClient) pinned(ctx context.Context, f func(do doFunc) error) error {
	return r.c.Do(ctx, radix.WithConn("", func(_ context.Context, conn radix.Conn) error {
		return f(radixDo(conn))
	}))
}

func (r radixClient) close() error { return r.c.Close() }

func TestRadix_TypedReceivers(t *testing.T) {
	for _, protocol := range []string{"", "2", "3"} {
		srv := start(t, "")
		c, err := radix.PoolConfig{Dialer: radix.Dialer{Protocol: protocol}}.New(t.Context(), "tcp", srv.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }() // no call is in progress
		var list []int64
		err = c.Do(t.Context(), radix.FlatCmd(&list, "CL.THROTTLE", "key", 15, 1, 60))
		if want := []int64{0, 16, 15, -1, 60}; err != nil || !slices.Equal(list, want) {
			t.Errorf("protocol %q: got %v, error %v; want %v", protocol, list, err, want)
		}
		var limited, limit, remaining, retryAfter, resetAfter int
		tuple := radix.Tuple{&limited, &limit, &remaining, &retryAfter, &resetAfter}
		err = c.Do(t.Context(), radix.FlatCmd(&tuple, "CL.THROTTLE", "key", 15, 1, 60, 3))
		if err != nil || limited != 0 || limit != 16 || remaining != 12 || retryAfter != -1 || resetAfter != 240 {
			t.Errorf("protocol %q: got %d %d %d %d %d, error %v; want 0 16 12 -1 240", protocol, limited, limit, remaining, retryAfter, resetAfter, err)
		}
		options := map[string]string{}
		err = c.Do(t.Context(), radix.Cmd(&options, "CONFIG", "GET", "max*"))
		if err != nil || options["maxmemory"] != "0" {
			t.Errorf("protocol %q, CONFIG GET: got %v, want maxmemory 0; error %v", protocol, options, err)
		}
		var refused resp3.SimpleError
		if err := c.Do(t.Context(), radix.FlatCmd(&list, "CL.THROTTLE", "key")); !errors.As(err, &refused) {
			t.Errorf("protocol %q, missing arguments: got the error %v, want an error reply", protocol, err)
		}
	}
}

func TestRadix_ScanAndSubscribe(t *testing.T) {
	srv := start(t, "")
	c, err := radix.PoolConfig{}.New(t.Context(), "tcp", srv.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // no call is in progress
	p := radix.NewPipeline()
	for i := range 300 {
		p.Append(radix.FlatCmd(nil, "CL.THROTTLE", fmt.Sprint("user:", i), 1, 1, 3600))
	}
	if err := c.Do(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	found, key := map[string]bool{}, ""
	scan := radix.ScannerConfig{Pattern: "user:*", Count: 20}.New(c)
	for scan.Next(t.Context(), &key) {
		found[key] = true
	}
	if err := scan.Close(); err != nil || len(found) != 300 {
		t.Errorf("found %d keys, want 300; error: %v", len(found), err)
	}

	for _, protocol := range []string{"2", "3"} {
		conn, err := radix.Dialer{Protocol: protocol}.Dial(t.Context(), "tcp", srv.addr)
		if err != nil {
			t.Fatal(err)
		}
		sub := radix.PubSubConfig{}.New(conn)
		for _, step := range []func() error{
			func() error { return sub.Subscribe(t.Context(), "news", "weather") },
			func() error { return sub.PSubscribe(t.Context(), "n*") },
			func() error { return sub.Ping(t.Context()) },
			func() error { return sub.Unsubscribe(t.Context(), "news", "weather") },
			func() error { return sub.PUnsubscribe(t.Context(), "n*") },
			sub.Close,
		} {
			if err := step(); err != nil {
				t.Fatalf("RESP%s: %v", protocol, err)
			}
		}
	}
}
