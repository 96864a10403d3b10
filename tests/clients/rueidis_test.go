package clienttests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

type rueidisClient struct{ c rueidis.Client }

func openRueidis(_ context.Context, addr string, s settings) (client, error) {
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:  []string{addr},
		Username:     s.user,
		Password:     s.password,
		ClientName:   s.clientName,
		AlwaysRESP2:  s.protocol == 2,
		DisableCache: s.protocol == 2, // the cache needs RESP3
	})
	if err != nil {
		return nil, err
	}
	return rueidisClient{c}, nil
}

// rueidisCommand builds a command. The command may have no arguments.
func rueidisCommand(b rueidis.Builder, args []string) rueidis.Completed {
	return b.Arbitrary(args[0]).Args(args[1:]...).Build()
}

func rueidisReply(v any, err error) (any, error) {
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	return plain(v), err
}

func (r rueidisClient) do(ctx context.Context, args ...string) (any, error) {
	return rueidisReply(r.c.Do(ctx, rueidisCommand(r.c.B(), args)).ToAny())
}

func (r rueidisClient) pipeline(ctx context.Context, commands [][]string) []reply {
	built := make(rueidis.Commands, len(commands))
	for i, args := range commands {
		built[i] = rueidisCommand(r.c.B(), args)
	}
	list := make([]reply, len(commands))
	for i, result := range r.c.DoMulti(ctx, built...) {
		list[i].value, list[i].err = rueidisReply(result.ToAny())
	}
	return list
}

func (r rueidisClient) transaction(ctx context.Context, commands [][]string) (list []reply, err error) {
	err = r.c.Dedicated(func(c rueidis.DedicatedClient) error {
		built := rueidis.Commands{c.B().Multi().Build()}
		for _, args := range commands {
			built = append(built, rueidisCommand(c.B(), args))
		}
		results := c.DoMulti(ctx, append(built, c.B().Exec().Build())...)
		messages, err := results[len(results)-1].ToArray()
		for _, m := range messages {
			v, err := rueidisReply(m.ToAny())
			list = append(list, reply{v, err})
		}
		return err
	})
	return list, err
}

func (r rueidisClient) pinned(_ context.Context, f func(do doFunc) error) error {
	return r.c.Dedicated(func(c rueidis.DedicatedClient) error {
		return f(func(ctx context.Context, args ...string) (any, error) {
			return rueidisReply(c.Do(ctx, rueidisCommand(c.B(), args)).ToAny())
		})
	})
}

func (r rueidisClient) close() error {
	r.c.Close()
	return nil
}

func newRueidis(t *testing.T, opts rueidis.ClientOption) rueidis.Client {
	t.Helper()
	c, err := rueidis.NewClient(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestRueidis_Builder tests the CL.THROTTLE builder of rueidis.
func TestRueidis_Builder(t *testing.T) {
	srv := start(t, "")
	c := newRueidis(t, rueidis.ClientOption{InitAddress: []string{srv.addr}})
	if mode := c.Mode(); mode != rueidis.ClientModeStandalone {
		t.Errorf("mode %v, want standalone", mode)
	}
	plain := c.B().ClThrottle().Key("key").MaxBurst(15).CountPerPeriod(1).Period(60)
	for i, test := range []struct {
		command rueidis.Completed
		want    []int64
	}{
		{plain.Build(), []int64{0, 16, 15, -1, 60}},
		{c.B().ClThrottle().Key("key").MaxBurst(15).CountPerPeriod(1).Period(60).Quantity(4).Build(), []int64{0, 16, 11, -1, 300}},
		{c.B().ClThrottle().Key("key").MaxBurst(15).CountPerPeriod(1).Period(60).Quantity(17).Build(), []int64{1, 16, 11, -1, 300}},
	} {
		got, err := c.Do(t.Context(), test.command).AsIntSlice()
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("call %d: got %v, error %v; want %v", i, got, err, test.want)
		}
	}
}

// TestRueidis_AutoPipelining checks that goroutines that share connections get their own replies.
func TestRueidis_AutoPipelining(t *testing.T) {
	srv := start(t, "")
	c := newRueidis(t, rueidis.ClientOption{InitAddress: []string{srv.addr}, AlwaysPipelining: true})
	var done sync.WaitGroup
	for caller := range 64 {
		done.Go(func() {
			key := fmt.Sprint("caller:", caller)
			for i := range 100 {
				cmd := c.B().ClThrottle().Key(key).MaxBurst(99).CountPerPeriod(1).Period(3600).Build()
				d, err := c.Do(t.Context(), cmd).AsIntSlice()
				if err != nil || d[0] != 0 || d[2] != int64(99-i) {
					t.Errorf("caller %d, call %d: got %v, error %v; want an admission that leaves one unit less than the previous one", caller, i, d, err)
					return
				}
			}
		})
	}
	done.Wait()
	if n := received(t, srv); n > poolSize+1 {
		t.Errorf("the server has accepted %d connections, want at most 9", n)
	}
}

// TestRueidis_Cache checks that the client-side cache is invalidated by the calls of other clients.
func TestRueidis_Cache(t *testing.T) {
	srv := start(t, "")
	c := newRueidis(t, rueidis.ClientOption{InitAddress: []string{srv.addr}})
	isThere := func(ctx context.Context, want bool) error {
		kind, err := c.DoCache(ctx, c.B().Type().Key("key").Cache(), time.Hour).ToString()
		if err == nil && (kind != "none") != want {
			return fmt.Errorf("the key is of type %s", kind)
		}
		return err
	}
	eventually(t, func(ctx context.Context) error { return isThere(ctx, false) })
	srv.ask(t, "CL.THROTTLE", "key", "1", "1", hour)
	eventually(t, func(ctx context.Context) error { return isThere(ctx, true) })
	srv.ask(t, "DEL", "key")
	eventually(t, func(ctx context.Context) error { return isThere(ctx, false) })
}

func TestRueidis_ScanAndSubscribe(t *testing.T) {
	srv := start(t, "")
	opts, err := rueidis.ParseURL("redis://" + srv.addr + "/0")
	if err != nil {
		t.Fatal(err)
	}
	c := newRueidis(t, opts)
	var commands rueidis.Commands
	for i := range 500 {
		commands = append(commands, c.B().ClThrottle().Key(fmt.Sprint("user:", i)).MaxBurst(1).CountPerPeriod(1).Period(3600).Build())
	}
	for _, result := range c.DoMulti(t.Context(), commands...) {
		if result.Error() != nil {
			t.Fatal(result.Error())
		}
	}
	found := map[string]bool{}
	scan := rueidis.NewScanner(func(cursor uint64) (rueidis.ScanEntry, error) {
		return c.Do(t.Context(), c.B().Scan().Cursor(cursor).Match("user:*").Count(50).Build()).AsScanEntry()
	})
	for key := range scan.Iter() {
		found[key] = true
	}
	if scan.Err() != nil || len(found) != 500 {
		t.Errorf("found %d keys, want 500; error: %v", len(found), scan.Err())
	}

	ctx, cancel := context.WithCancel(t.Context())
	ctx = rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
		if s.Kind == "subscribe" && s.Channel == "news" {
			cancel()
		}
	})
	err = c.Receive(ctx, c.B().Subscribe().Channel("news").Build(), func(m rueidis.PubSubMessage) {
		t.Errorf("unexpected message %v", m)
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("subscribe: got the error %v, want context canceled", err)
	}
}
