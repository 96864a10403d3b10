package clienttests

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/mediocregopher/radix/v4"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

const (
	script  = "return redis.call('cl.throttle', KEYS[1], 15, 30, 60)"
	refusal = "scripts are not supported: use CL.THROTTLE"
)

// TestScripts runs a script with the API of each library: EVALSHA, and EVAL or SCRIPT LOAD
// if the server does not have the script. The library must return the server's error after
// at most two commands.
func TestScripts(t *testing.T) {
	for library, run := range map[string]func(ctx context.Context, addr string) error{
		"go-redis": func(ctx context.Context, addr string) error {
			c := goredis.NewClient(&goredis.Options{Addr: addr})
			defer func() { _ = c.Close() }()
			return goredis.NewScript(script).Run(ctx, c, []string{"k"}).Err()
		},
		"go-redis, read-only": func(ctx context.Context, addr string) error {
			c := goredis.NewClient(&goredis.Options{Addr: addr})
			defer func() { _ = c.Close() }()
			return goredis.NewScript(script).RunRO(ctx, c, []string{"k"}).Err()
		},
		"rueidis": func(ctx context.Context, addr string) error {
			c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
			if err != nil {
				return fmt.Errorf("connect: %w", err)
			}
			defer c.Close()
			return rueidis.NewLuaScript(script).Exec(ctx, c, []string{"k"}, nil).Error()
		},
		"redigo": func(ctx context.Context, addr string) error {
			c, err := redis.DialContext(ctx, "tcp", addr)
			if err != nil {
				return fmt.Errorf("connect: %w", err)
			}
			defer func() { _ = c.Close() }()
			_, err = redis.NewScript(1, script).DoContext(ctx, c, "k")
			return err
		},
		"radix": func(ctx context.Context, addr string) error {
			c, err := radix.Dial(ctx, "tcp", addr)
			if err != nil {
				return fmt.Errorf("connect: %w", err)
			}
			defer func() { _ = c.Close() }()
			return c.Do(ctx, radix.NewEvalScript(script).Cmd(nil, []string{"k"}))
		},
	} {
		t.Run(library, func(t *testing.T) {
			srv := start(t, "")
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := run(ctx, srv.addr); err == nil || !strings.Contains(err.Error(), refusal) {
				t.Errorf("got the error %v, want %s", err, refusal)
			}
			if n := scriptCommands(t, srv); n < 1 || n > 2 {
				t.Errorf("the library has sent %d script commands, want 1 or 2", n)
			}
		})
	}
}

// scriptCommands returns the number of script commands that a server has received.
func scriptCommands(t *testing.T, srv *server) (n int) {
	t.Helper()
	for line := range strings.SplitSeq(srv.ask(t, "INFO", "commandstats").(string), "\r\n") {
		name, stats, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
		if !strings.HasPrefix(name, "eval") && !strings.HasPrefix(name, "script") {
			continue
		}
		_, rest, _ := strings.Cut(stats, "rejected_calls=")
		count, _, _ := strings.Cut(rest, ",")
		rejected, err := strconv.Atoi(count)
		if err != nil {
			t.Fatal(err)
		}
		n += rejected
	}
	return n
}
