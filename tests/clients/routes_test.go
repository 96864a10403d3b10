package clienttests

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	redigopkg "github.com/gomodule/redigo/redis"
	"github.com/mediocregopher/radix/v4"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// route is a way of connecting to the cluster: a library in one of its modes, with the default
// configuration and the options that the documentation requires.
type route struct {
	name string
	// open returns a function that runs a command. The argument near is the id of the first node
	// in the configuration of the client, or of the only node if the client has a single server.
	open func(t *testing.T, c *trio, near string) doFunc
	// single is true if the client is configured with one server. Such a client works as long as
	// its node runs. All other clients work as long as there is a leader.
	single bool
}

var routes = []route{
	{"go-redis, one node", routeGoRedis, true},
	{"go-redis, cluster", routeGoRedisCluster, false},
	{"go-redis, sentinel", routeGoRedisSentinel, false},
	{"rueidis, one node", routeRueidis, true},
	{"rueidis, cluster", routeRueidisCluster, false},
	{"rueidis, sentinel", routeRueidisSentinel, false},
	{"redigo, one node", routeRedigo, true},
	{"radix, one node", routeRadix, true},
	{"radix, cluster", routeRadixCluster, false},
	{"radix, sentinel", routeRadixSentinel, false},
	{"redis-py, one node", routeRedisPy("node", portForAll), true},
	{"redis-py, cluster", routeRedisPy("cluster", portForCluster), false},
	{"redis-py, sentinel", routeRedisPy("sentinel", portForSentinel), false},
	{"redis-cli -c", routeRedisCLI, true},
}

// retries is the MaxRetries that docs/clients.md recommends for go-redis. By default, go-redis
// makes three quick retries, which take less time than a failover.
const retries = 8

func doGoRedis(t *testing.T, c redis.UniversalClient) doFunc {
	t.Cleanup(func() { _ = c.Close() }) // no call is in progress
	return func(ctx context.Context, args ...string) (any, error) {
		return goRedisReply(c.Do(ctx, words(args)...))
	}
}

func routeGoRedis(t *testing.T, c *trio, near string) doFunc {
	return doGoRedis(t, redis.NewClient(&redis.Options{Addr: c.at(near, portForAll), Password: trioPassword, MaxRetries: retries}))
}

// newGoRedisCluster returns a client that reloads the topology often, since a leader that is down
// sends no redirects.
func newGoRedisCluster(c *trio, near string) *redis.ClusterClient {
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: c.all(near, portForCluster), Password: trioPassword, MaxRedirects: retries,
		ClusterStateReloadInterval: time.Second,
	})
}

func routeGoRedisCluster(t *testing.T, c *trio, near string) doFunc {
	return doGoRedis(t, newGoRedisCluster(c, near))
}

func goRedisFailover(c *trio, near string) *redis.FailoverOptions {
	return &redis.FailoverOptions{
		MasterName: trioMaster, SentinelAddrs: c.all(near, portForSentinel),
		SentinelPassword: trioPassword, Password: trioPassword, MaxRetries: retries,
	}
}

func routeGoRedisSentinel(t *testing.T, c *trio, near string) doFunc {
	return doGoRedis(t, redis.NewFailoverClient(goRedisFailover(c, near)))
}

// doRueidis marks the key of the command, since the library selects the node by the key.
func doRueidis(t *testing.T, opts rueidis.ClientOption) doFunc {
	t.Helper()
	c := newRueidis(t, opts)
	return func(ctx context.Context, args ...string) (any, error) {
		return rueidisReply(c.Do(ctx, c.B().Arbitrary(args[0]).Keys(args[1]).Args(args[2:]...).Build()).ToAny())
	}
}

func routeRueidis(t *testing.T, c *trio, near string) doFunc {
	return doRueidis(t, rueidis.ClientOption{InitAddress: []string{c.at(near, portForAll)}, Password: trioPassword})
}

func routeRueidisCluster(t *testing.T, c *trio, near string) doFunc {
	return doRueidis(t, rueidis.ClientOption{InitAddress: c.all(near, portForCluster), Password: trioPassword})
}

func routeRueidisSentinel(t *testing.T, c *trio, near string) doFunc {
	return doRueidis(t, rueidis.ClientOption{
		InitAddress: c.all(near, portForSentinel), Password: trioPassword,
		Sentinel: rueidis.SentinelOption{MasterSet: trioMaster, Password: trioPassword},
	})
}

func doLibrary(t *testing.T, c *trio, near string, open func(context.Context, string, settings) (client, error)) doFunc {
	t.Helper()
	return mustOpen(t, library{open: open}, c.at(near, portForAll), settings{password: trioPassword}).do
}

// routeRedigo uses a client of a single server, the only kind in redigo.
func routeRedigo(t *testing.T, c *trio, near string) doFunc {
	t.Helper()
	return doLibrary(t, c, near, openRedigo)
}

func routeRadix(t *testing.T, c *trio, near string) doFunc {
	t.Helper()
	return doLibrary(t, c, near, openRadix)
}

// doRadix decodes replies with the library, since the library follows only redirects that it has
// decoded itself.
func doRadix(t *testing.T, c radix.MultiClient, err error) doFunc {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // no call is in progress
	return func(ctx context.Context, args ...string) (v any, err error) {
		err = c.Do(ctx, radix.Cmd(&v, args[0], args[1:]...))
		return plain(v), err
	}
}

func radixPool() radix.PoolConfig {
	return radix.PoolConfig{Dialer: radix.Dialer{AuthPass: trioPassword}, Size: poolSize}
}

// routeRadixCluster uses a client that reloads the topology often, like newGoRedisCluster.
func routeRadixCluster(t *testing.T, c *trio, near string) doFunc {
	t.Helper()
	cluster, err := radix.ClusterConfig{PoolConfig: radixPool(), SyncEvery: time.Second}.New(t.Context(), c.all(near, portForCluster))
	return doRadix(t, cluster, err)
}

func routeRadixSentinel(t *testing.T, c *trio, near string) doFunc {
	t.Helper()
	s, err := radix.SentinelConfig{PoolConfig: radixPool(), SentinelDialer: radix.Dialer{AuthPass: trioPassword}}.
		New(t.Context(), trioMaster, c.all(near, portForSentinel))
	return doRadix(t, s, err)
}

// routeRedisPy drives a redis-py process, which reads commands and writes replies in JSON.
func routeRedisPy(mode, port string) func(t *testing.T, c *trio, near string) doFunc {
	return func(t *testing.T, c *trio, near string) doFunc {
		t.Helper()
		args := append([]string{"-W", "error", "testdata/redis_py_route.py", mode, trioPassword, trioMaster}, c.all(near, port)...)
		cmd := exec.Command(tool(t, "/usr/bin/python3", "python3 python3-redis"), args...)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var complaints strings.Builder
		cmd.Stderr = &complaints
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = in.Close()
			if err := cmd.Wait(); err != nil || complaints.Len() > 0 {
				t.Errorf("the redis-py process of mode %s exits with error %v, want none, and prints\n%s", mode, err, &complaints)
			}
		})
		py := pipeOfLines{in: in, out: bufio.NewScanner(out)}
		return py.do
	}
}

// pipeOfLines is a client in another process. It runs one command at a time.
type pipeOfLines struct {
	mu  sync.Mutex
	in  io.Writer
	out *bufio.Scanner
}

func (p *pipeOfLines) do(_ context.Context, args ...string) (any, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	line, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return nil, err
	}
	if !p.out.Scan() {
		return nil, errors.Join(io.ErrUnexpectedEOF, p.out.Err())
	}
	var got struct {
		Reply []int64
		Error string
	}
	if err := json.Unmarshal(p.out.Bytes(), &got); err != nil {
		return nil, fmt.Errorf("%s: %w", p.out.Bytes(), err)
	}
	if got.Error != "" {
		return nil, errors.New(got.Error)
	}
	return integers(got.Reply), nil
}

func integers(list []int64) []any {
	values := make([]any, len(list))
	for i, n := range list {
		values[i] = n
	}
	return values
}

// routeRedisCLI runs redis-cli for each command. redis-cli connects to one node and follows redirects.
func routeRedisCLI(t *testing.T, c *trio, near string) doFunc {
	path := tool(t, "redis-cli", "redis-tools")
	return func(ctx context.Context, args ...string) (any, error) {
		// Starting a process may take longer than the timeout of a call.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		at := []string{"-c", "-e", "--no-auth-warning", "-a", trioPassword, "-h", c.host(near), "-p", portForCluster}
		out, err := exec.CommandContext(ctx, path, append(at, args...)...).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("%w: %s", err, out)
		}
		var list []any
		for line := range strings.FieldsSeq(string(out)) {
			n, err := strconv.ParseInt(line, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("redis-cli prints %q", out)
			}
			list = append(list, n)
		}
		return list, nil
	}
}

// dialRedigo opens a connection to a port of a node.
func dialRedigo(t *testing.T, addr string) redigopkg.Conn {
	t.Helper()
	conn, err := redigopkg.Dial("tcp", addr, redigopkg.DialPassword(trioPassword), redigopkg.DialReadTimeout(patience),
		redigopkg.DialConnectTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // no call is in progress
	return conn
}
