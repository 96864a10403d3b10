package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

const reconnectTimeout = 10 * time.Second

// checks runs the checks with one client, which is opened by the first check that needs it.
type checks struct {
	options
	library
	client client
}

// check returns additional fields of the result.
func (c *checks) check(ctx context.Context, name string) (result, error) {
	if name == "version" {
		return version(c.module)
	}
	if c.client == nil {
		opened, err := c.open(ctx, c.options)
		if err != nil {
			return nil, err
		}
		c.client = opened
	}
	run, ok := map[string]func(context.Context) (result, error){
		"connect": c.connect, "pipeline": c.pipeline, "transaction": c.transaction, "error": c.wrongArguments, "auth": c.auth,
		"concurrent": c.concurrent, "reconnect": c.reconnect, "load": c.load,
	}[name]
	if !ok {
		return nil, errors.New("unknown check")
	}
	return run(ctx)
}

func (c *checks) args(check string, limit ...string) []string {
	return append([]string{c.key + ":" + check}, limit...)
}

func (c *checks) connect(ctx context.Context) (result, error) {
	got, err := c.client.throttle(ctx, c.args("connect", "15", "30", "60"))
	return nil, equal(got, []int64{0, 16, 15, -1, 2}, err)
}

func (c *checks) pipeline(ctx context.Context) (result, error) {
	got, err := c.client.pipeline(ctx, c.args("pipeline", "999", "1", "3600"), 1000)
	return nil, countsDown(got, 1000, err)
}

func (c *checks) transaction(ctx context.Context) (result, error) {
	got, err := c.client.transaction(ctx, c.args("transaction", "9", "1", "3600"), 10)
	return nil, countsDown(got, 10, err)
}

// countsDown checks that the remaining counts of n decisions are n-1 to 0.
func countsDown(decisions [][]int64, n int, err error) error {
	var got, want []int64
	for _, decision := range decisions {
		got = append(got, decision[2])
	}
	for i := range n {
		want = append(want, int64(n-1-i))
	}
	return equal(got, want, err)
}

func equal(got, want any, err error) error {
	if err == nil && !reflect.DeepEqual(got, want) {
		err = fmt.Errorf("got %v, want %v", got, want)
	}
	return err
}

func (c *checks) wrongArguments(ctx context.Context) (result, error) {
	got, err := c.client.throttle(ctx, c.args("error", "x", "1", "60"))
	if err == nil || !c.client.ownError(err) || !strings.Contains(err.Error(), "max_burst") {
		return nil, fmt.Errorf("got %v, error %T %w; want an error of the library that contains max_burst", got, err, err)
	}
	got, err = c.client.throttle(ctx, c.args("error", "15", "30", "60"))
	return nil, equal(len(got), 5, err)
}

func (c *checks) auth(ctx context.Context) (result, error) {
	wrong := c.options
	wrong.password = "wrong"
	stranger, err := c.open(ctx, wrong)
	if err == nil {
		_, err = stranger.throttle(ctx, c.args("auth", "15", "30", "60"))
	}
	if err == nil || !c.client.ownError(err) {
		return nil, fmt.Errorf("got the error %T %w, want an error of the library", err, err)
	}
	return nil, nil
}

// concurrently runs the work of all callers.
func (c *checks) concurrently(work func()) {
	var callers sync.WaitGroup
	for range c.callers {
		callers.Go(work)
	}
	callers.Wait()
}

func (c *checks) concurrent(ctx context.Context) (result, error) {
	var mu sync.Mutex
	var admitted int
	var failed error
	c.concurrently(func() {
		for range 4 {
			got, err := c.client.throttle(ctx, c.args("concurrent", "99", "1", "3600"))
			mu.Lock()
			failed = errors.Join(failed, err)
			if err == nil && got[0] == 0 {
				admitted++
			}
			mu.Unlock()
		}
	})
	return result{"admitted": admitted}, failed
}

func (c *checks) reconnect(ctx context.Context) (result, error) {
	args := c.args("reconnect", "15", "30", "60")
	if _, err := c.client.throttle(ctx, args); err != nil {
		return nil, err
	}
	write(result{"check": "reconnect", "event": "ready"})
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return nil, err
	}
	deadline := time.Now().Add(reconnectTimeout)
	for failed := 0; ; failed++ {
		_, err := c.client.throttle(ctx, args)
		if err == nil || time.Now().After(deadline) {
			return result{"failed": failed}, err
		}
		time.Sleep(callPause) // the rate of the calls, as in all drivers
	}
}

func (c *checks) load(ctx context.Context) (result, error) {
	l := newLoad(c.until)
	args := c.args("load", "1000000", "1000000", "60")
	c.concurrently(func() {
		l.run(func() error {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			_, err := c.client.throttle(ctx, slices.Clone(args))
			return err
		})
	})
	r := l.result()
	if c, ok := c.client.(repeater); ok {
		r["repeated"] = c.repeated()
	}
	return r, nil
}
