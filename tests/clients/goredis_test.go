package clienttests

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// goRedisLog keeps the log of go-redis, which is the only library that writes a log.
var goRedisLog logKeeper

type logKeeper struct {
	mu    sync.Mutex
	lines []string
}

// Printf implements the logger of go-redis.
func (k *logKeeper) Printf(_ context.Context, format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lines = append(k.lines, fmt.Sprintf(format, args...))
}

// usualLog matches the log lines of go-redis about stopped servers, the connections that
// they closed, and the leader of a cluster. go-redis reports a new connection that was closed before
// its first use, also by Close of the client, as marked for handoff.
var usualLog = regexp.MustCompile(`connect: connection refused$|state changed by hook to CLOSED, closing it$|` +
	`failed to process new connection conn\[\d+\] by hook: accept=false, err=connection marked for handoff$|` +
	`^sentinel: ((selected addr|new master)=|.* failed: )`)

// odd returns the log lines that usualLog does not match.
func (k *logKeeper) odd() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(k.lines), func(line string) bool {
		return usualLog.MatchString(line)
	})
}

func keepGoRedisLog() {
	redis.SetLogger(&goRedisLog)
	redis.SetLogLevel(logging.LogLevelInfo)
}

type goRedis struct{ c *redis.Client }

func openGoRedis(_ context.Context, addr string, s settings) (client, error) {
	return goRedis{redis.NewClient(&redis.Options{
		Addr:                  addr,
		Protocol:              s.protocol,
		Username:              s.user,
		Password:              s.password,
		ClientName:            s.clientName,
		PoolSize:              poolSize,
		ContextTimeoutEnabled: s.obeyContext,
	})}, nil
}

func goRedisReply(cmd *redis.Cmd) (any, error) {
	v, err := cmd.Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return plain(v), err
}

func (g goRedis) do(ctx context.Context, args ...string) (any, error) {
	return goRedisReply(g.c.Do(ctx, words(args)...))
}

// queue adds commands to a pipeline or transaction.
func (g goRedis) queue(ctx context.Context, p redis.Pipeliner, commands [][]string) []*redis.Cmd {
	queued := make([]*redis.Cmd, len(commands))
	for i, args := range commands {
		queued[i] = p.Do(ctx, words(args)...)
	}
	return queued
}

func (g goRedis) pipeline(ctx context.Context, commands [][]string) []reply {
	p := g.c.Pipeline()
	queued := g.queue(ctx, p, commands)
	_, _ = p.Exec(ctx) // the error is also returned by a command
	return goRedisReplies(queued)
}

func goRedisReplies(queued []*redis.Cmd) []reply {
	list := make([]reply, len(queued))
	for i, cmd := range queued {
		list[i].value, list[i].err = goRedisReply(cmd)
	}
	return list
}

// transaction returns an error for the whole transaction only if no command has a reply.
func (g goRedis) transaction(ctx context.Context, commands [][]string) ([]reply, error) {
	p := g.c.TxPipeline()
	queued := g.queue(ctx, p, commands)
	_, err := p.Exec(ctx)
	list := goRedisReplies(queued)
	for _, r := range list {
		if r.err == nil {
			return list, nil
		}
	}
	return list, err
}

func (g goRedis) pinned(_ context.Context, f func(do doFunc) error) error {
	conn := g.c.Conn()
	err := f(func(ctx context.Context, args ...string) (any, error) {
		return goRedisReply(conn.Do(ctx, words(args)...))
	})
	return errors.Join(err, conn.Close())
}

func (g goRedis) close() error { return g.c.Close() }

func newGoRedis(t *testing.T, opts *redis.Options) *redis.Client {
	t.Helper()
	c := redis.NewClient(opts)
	t.Cleanup(func() { _ = c.Close() }) // some tests have already closed it
	return c
}

// TestGoRedis_TypedCommands tests the typed commands, which parse replies strictly.
func TestGoRedis_TypedCommands(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprint("RESP", protocol), func(t *testing.T) {
			srv := start(t, "")
			c := newGoRedis(t, &redis.Options{Addr: srv.addr, Protocol: protocol, ClientName: "typed"})
			limit, err := c.Do(t.Context(), "CL.THROTTLE", "key", 15, 1, 60, 1).Int64Slice()
			if want := []int64{0, 16, 15, -1, 60}; err != nil || !slices.Equal(limit, want) {
				t.Fatalf("got %v, error %v; want %v", limit, err, want)
			}
			checkServerCommands(t, c, protocol)
			checkKeyCommands(t, c)
		})
	}
}

// checkReply fails the test if the command failed, or if good is false.
func checkReply(t *testing.T, cmd redis.Cmder, good bool) {
	t.Helper()
	if cmd.Err() != nil || !good {
		t.Errorf("unexpected reply: %v", cmd)
	}
}

func checkKeyCommands(t *testing.T, c *redis.Client) {
	t.Helper()
	ctx := t.Context()
	exists := c.Exists(ctx, "key", "other")
	checkReply(t, exists, exists.Val() == 1)
	kind := c.Type(ctx, "key")
	checkReply(t, kind, kind.Val() != "none" && kind.Val() != "")
	ttl := c.TTL(ctx, "key")
	checkReply(t, ttl, ttl.Val() > 40*time.Second && ttl.Val() <= time.Minute)
	pttl := c.PTTL(ctx, "other")
	checkReply(t, pttl, pttl.Val() == -2)
	size := c.DBSize(ctx)
	checkReply(t, size, size.Val() == 1)
	keys := c.Keys(ctx, "k*")
	checkReply(t, keys, slices.Equal(keys.Val(), []string{"key"}))
	used := c.MemoryUsage(ctx, "key")
	checkReply(t, used, used.Val() > 0)
	encoding := c.ObjectEncoding(ctx, "key")
	checkReply(t, encoding, encoding.Val() != "")
	deleted := c.Del(ctx, "key", "other")
	checkReply(t, deleted, deleted.Val() == 1)
	flushed := c.FlushDB(ctx)
	checkReply(t, flushed, flushed.Val() == "OK")
}

func checkServerCommands(t *testing.T, c *redis.Client, protocol int) {
	t.Helper()
	ctx := t.Context()
	clock := c.Time(ctx)
	checkReply(t, clock, time.Since(clock.Val()).Abs() < time.Minute)
	id := c.ClientID(ctx)
	checkReply(t, id, id.Val() > 0)
	self := c.ClientInfo(ctx)
	checkReply(t, self, self.Err() == nil && self.Val().ID == id.Val() && self.Val().Name == "typed" && self.Val().Resp == protocol)
	clients := c.ClientList(ctx)
	checkReply(t, clients, strings.Contains(clients.Val(), "name=typed"))
	config := c.ConfigGet(ctx, "max*")
	checkReply(t, config, config.Val()["maxclients"] != "" && config.Val()["maxmemory"] == "0")
	set := c.ConfigSet(ctx, "slowlog-log-slower-than", "0")
	checkReply(t, set, set.Val() == "OK")
	slow := c.SlowLogGet(ctx, 10)
	checkReply(t, slow, len(slow.Val()) > 0 && slow.Val()[0].ClientName == "typed")
	latency := c.Latency(ctx)
	checkReply(t, latency, len(latency.Val()) == 0)
	info := c.InfoMap(ctx, "server", "stats")
	checkReply(t, info, info.Val()["Server"]["redis_mode"] == "standalone")
	commands := c.Command(ctx)
	throttle := commands.Val()["cl.throttle"]
	checkReply(t, commands, throttle != nil && throttle.FirstKeyPos == 1 && throttle.Arity == -5 && !throttle.ReadOnly)
	names := c.CommandList(ctx, nil)
	checkReply(t, names, slices.Contains(names.Val(), "cl.throttle"))
	keys := c.CommandGetKeys(ctx, "CL.THROTTLE", "key", 1, 2, 3)
	checkReply(t, keys, slices.Equal(keys.Val(), []string{"key"}))
}

// TestGoRedis_Watch has ten callers charge one unit each with WATCH, a peek, MULTI, a
// charge and EXEC. They retry on a conflict, so no caller is limited.
func TestGoRedis_Watch(t *testing.T) {
	const callers = 10
	srv := start(t, "")
	c := newGoRedis(t, &redis.Options{Addr: srv.addr})
	take := func(quantity int) []any {
		return []any{"CL.THROTTLE", "key", callers - 1, 1, 3600, quantity}
	}
	var done sync.WaitGroup
	for range callers {
		done.Go(func() {
			for {
				err := c.Watch(t.Context(), func(tx *redis.Tx) error {
					seen, err := tx.Do(t.Context(), take(0)...).Int64Slice()
					if err != nil {
						return err
					}
					var taken *redis.Cmd
					if _, err := tx.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
						taken = p.Do(t.Context(), take(1)...)
						return nil
					}); err != nil {
						return err
					}
					if d, err := taken.Int64Slice(); err != nil || d[0] != 0 || d[2] != seen[2]-1 {
						return fmt.Errorf("saw %v, took %v, %w", seen, d, err)
					}
					return nil
				}, "key")
				if !errors.Is(err, redis.TxFailedErr) {
					if err != nil {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	done.Wait()
	if d, err := c.Do(t.Context(), take(0)...).Int64Slice(); err != nil || d[2] != 0 {
		t.Errorf("after all charges: got %v, error %v; want nothing remaining", d, err)
	}
}

func TestGoRedis_Scan(t *testing.T) {
	srv := start(t, "")
	c := newGoRedis(t, &redis.Options{Addr: srv.addr})
	_, err := c.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range 1000 {
			p.Do(t.Context(), "CL.THROTTLE", fmt.Sprint("user:", i), 1, 1, 3600)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	it := c.Scan(t.Context(), 0, "user:*", 100).Iterator()
	for it.Next(t.Context()) {
		found[it.Val()]++
	}
	if it.Err() != nil || len(found) != 1000 {
		t.Errorf("found %d keys, want 1000; error: %v", len(found), it.Err())
	}
}

func TestGoRedis_Subscribe(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		srv := start(t, "")
		c := newGoRedis(t, &redis.Options{Addr: srv.addr, Protocol: protocol})
		sub := c.Subscribe(t.Context(), "news", "weather")
		for i, want := range []string{"news", "weather"} {
			got, err := sub.ReceiveTimeout(t.Context(), patience)
			s, ok := got.(*redis.Subscription)
			if err != nil || !ok || *s != (redis.Subscription{Kind: "subscribe", Channel: want, Count: i + 1}) {
				t.Errorf("RESP%d, SUBSCRIBE: got %v, want a confirmation; error %v", protocol, got, err)
			}
		}
		if err := sub.Ping(t.Context(), "hello"); err != nil {
			t.Error(err)
		}
		if got, err := sub.ReceiveTimeout(t.Context(), patience); err != nil || got.(*redis.Pong).Payload != "hello" {
			t.Errorf("RESP%d, PING: got %v, want hello; error %v", protocol, got, err)
		}
		if err := sub.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestGoRedis_URL(t *testing.T) {
	srv := start(t, "secret")
	opts, err := redis.ParseURL("redis://default:secret@" + srv.addr + "/0?protocol=2&client_name=by-url")
	if err != nil {
		t.Fatal(err)
	}
	c := newGoRedis(t, opts)
	if name, err := c.ClientGetName(t.Context()).Result(); err != nil || name != "by-url" {
		t.Errorf("got the client name %q, want by-url; error %v", name, err)
	}
}

// TestGoRedis_Ring tests a Ring, which sends health checks and COMMAND to its servers and
// distributes keys over them.
func TestGoRedis_Ring(t *testing.T) {
	servers := []*server{start(t, ""), start(t, "")}
	ring := redis.NewRing(&redis.RingOptions{
		Addrs:              map[string]string{"a": servers[0].addr, "b": servers[1].addr},
		HeartbeatFrequency: 20 * time.Millisecond,
	})
	defer func() { _ = ring.Close() }() // no call is in progress
	for round := range 2 {
		for i := range 50 {
			d, err := ring.Do(t.Context(), "CL.THROTTLE", fmt.Sprint("user:", i), 1, 1, 3600).Int64Slice()
			if err != nil || d[2] != int64(1-round) {
				t.Fatalf("round %d, user %d: got %v, error %v; want 1 unit remaining in round 0, and none in round 1", round, i, d, err)
			}
		}
	}
	a, b := servers[0].ask(t, "DBSIZE").(int64), servers[1].ask(t, "DBSIZE").(int64)
	if a == 0 || b == 0 || a+b != 50 {
		t.Errorf("the two servers have %d and %d keys; want 50 in total, and some on each server", a, b)
	}
}
