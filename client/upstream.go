package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis is the part of a client of go-redis that a Client uses. [redis.UniversalClient] has it.
type Redis interface {
	Pipeline() redis.Pipeliner
}

// Bounds of the connection to the server.
const (
	maxPipelines = 16                     // pipelines that have not returned
	maxProbes    = 4                      // of these, probes
	minPause     = 5 * time.Millisecond   // between two probes
	maxPause     = 250 * time.Millisecond // the pauses are random, so that many processes do not connect together
)

// upstream sends pipelines to the server, and detects whether it answers.
type upstream struct {
	rdb     Redis
	timeout time.Duration // of probes
	slots   chan struct{} // one element for each pipeline that has not returned
	probes  chan struct{} // one element for each probe that has not returned

	down    atomic.Bool   // the server does not answer
	wake    chan struct{} // holds a token if probes are needed
	sent    atomic.Uint64 // pipelines
	outages atomic.Uint64
}

func newUpstream(rdb Redis, timeout time.Duration) *upstream {
	return &upstream{
		rdb: rdb, timeout: timeout, wake: make(chan struct{}, 1),
		slots: make(chan struct{}, maxPipelines), probes: make(chan struct{}, maxProbes),
	}
}

// exchange sends commands in a pipeline, and returns their replies: values or errors. It returns ErrTimeout when ctx is done.
// The pipeline is not canceled then, because go-redis would close its connection. If it is answered later, the server counts
// as available again.
func (u *upstream) exchange(ctx context.Context, commands [][]any) ([]any, error) {
	select {
	case u.slots <- struct{}{}:
	default:
		return nil, ErrBusy
	}
	done := make(chan []any, 1)
	go func() {
		defer func() { <-u.slots }()
		replies := u.pipeline(context.WithoutCancel(ctx), commands)
		u.learn(replies)
		done <- replies
	}()
	select {
	case replies := <-done:
		return replies, nil
	case <-ctx.Done():
		return nil, ErrTimeout
	}
}

// pipeline sends commands and waits for their replies.
func (u *upstream) pipeline(ctx context.Context, commands [][]any) []any {
	u.sent.Add(1)
	pipe := u.rdb.Pipeline()
	cmds := make([]*redis.Cmd, len(commands))
	for i, args := range commands {
		cmds[i] = pipe.Do(ctx, args...)
	}
	_, failed := pipe.Exec(ctx)
	replies := make([]any, len(cmds))
	for i, cmd := range cmds {
		value, err := cmd.Result()
		switch {
		case err != nil:
			replies[i] = err
		case value == nil && failed != nil: // without a connection, go-redis sets no error of the commands
			replies[i] = failed
		default:
			replies[i] = value
		}
	}
	return replies
}

// learn sets whether the server answers, from the last reply of a pipeline.
func (u *upstream) learn(replies []any) {
	err, failed := replies[len(replies)-1].(error)
	if failed && classify(err).away {
		u.failed()
		return
	}
	u.down.Store(false)
}

// failed records that the server does not answer, and starts probes.
func (u *upstream) failed() {
	if !u.down.CompareAndSwap(false, true) {
		return
	}
	u.outages.Add(1)
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// run sends probes while the server does not answer, until ctx is done.
func (u *upstream) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-u.wake:
		}
		for u.down.Load() && ctx.Err() == nil {
			u.probe(ctx)
			u.pause(ctx)
		}
	}
}

// pause waits for a random time between two probes, unless the server answers.
func (u *upstream) pause(ctx context.Context) {
	if !u.down.Load() {
		return
	}
	timer := time.NewTimer(minPause + rand.N(maxPause-minPause)) // #nosec G404 -- a delay
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// probe sends a command that changes nothing. A server without a leader answers it with an error.
func (u *upstream) probe(ctx context.Context) {
	select {
	case u.probes <- struct{}{}:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(ctx, u.timeout)
	go func() {
		defer cancel()
		defer func() { <-u.probes }()
		u.learn(u.pipeline(context.WithoutCancel(ctx), [][]any{{"EXISTS", "throttled:client"}}))
	}()
	<-ctx.Done()
}

// conn sends the draws and returns of the courier.
type conn struct{ upstream *upstream }

var errNoReplies = errors.New("not sent, because the server does not answer")

// Do implements courier.Conn. It sends nothing while the server does not answer.
func (c conn) Do(ctx context.Context, commands [][]string) ([]any, error) {
	if c.upstream.down.Load() {
		return nil, errNoReplies
	}
	converted := make([][]any, len(commands))
	for i, words := range commands {
		args := make([]any, len(words))
		for j := range words {
			args[j] = words[j]
		}
		converted[i] = args
	}
	return c.upstream.exchange(ctx, converted)
}
