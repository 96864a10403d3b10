package middleware

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Client sends commands to the server. [redis.UniversalClient] implements it, and with it all clients of go-redis.
type Client interface {
	// Do sends a command and returns its reply.
	Do(ctx context.Context, args ...any) *redis.Cmd
}

// Policy decides requests that the server has not decided.
type Policy int

// Policies.
const (
	// Open admits the requests. It fits limits that protect capacity.
	Open Policy = iota
	// Closed refuses the requests. It fits limits that protect secrets, such as passwords.
	Closed
	// Local applies Request.Limits in this process, with Config.Share. Requests without Limits are admitted.
	Local
)

// Config has the settings of a Limiter. The zero value is valid.
type Config struct {
	// OnFailure decides requests that the server has not decided.
	OnFailure Policy
	// Share is the part of each limit that the policy Local admits in this process, greater than 0 and at most 1. The
	// default is 1. With n processes, 1/n keeps the sum within the limit.
	Share float64
	// LocalKeys is the maximum number of keys that the policy Local stores. The default is 65,536, about 10 MiB.
	LocalKeys int

	// Decider, if not nil, decides the requests with Limits and a positive cost instead of calls of the server. Its own
	// timeout applies to them instead of Timeout, MaxCalls, Failures and Cooldown. See package client/decider.
	Decider Decider

	// Timeout is the maximum time of a check. The default is 20 ms: a server that is not overloaded answers in less than 5 ms
	// including the network of a data center, and Envoy uses the same value. A cluster that elects a leader answers requests
	// with Limits after up to leader-wait, 900 ms by default, and those of Rules after up to 400 ms: use a second, or half
	// a second for Rules, if requests should wait for it.
	Timeout time.Duration
	// MaxCalls is the maximum number of concurrent calls of the server. Calls that have not returned within Timeout count
	// until they return. The default is 1,024.
	MaxCalls int
	// Failures is the number of failures in a row after which the circuit breaker stops the calls. The default is 5. Error
	// replies of the server are no failures in this sense.
	Failures int
	// Cooldown is the mean time after which the breaker permits one call as a probe. The default is one second.
	Cooldown time.Duration
	// MaxWaiters is the maximum number of requests that wait in Wait. The default is 1,024.
	MaxWaiters int

	// OnError, if not nil, is called with the reason of each decision by OnFailure. It must return quickly.
	OnError func(error)
	// OnBreaker, if not nil, is called when the circuit breaker opens or closes. It must return quickly.
	OnBreaker func(open bool)
}

// Reasons of decisions by Config.OnFailure. Error replies of the server have the type redis.Error of go-redis.
var (
	// ErrTimeout means that the server has not answered within Config.Timeout. It may have charged the request.
	ErrTimeout = errors.New("the server has not answered in time")
	// ErrBreakerOpen means that the circuit breaker is open. The server was not called.
	ErrBreakerOpen = errors.New("the circuit breaker is open")
	// ErrTooManyCalls means that Config.MaxCalls calls are pending. The server was not called.
	ErrTooManyCalls = errors.New("too many calls are pending")
)

// Stats are counters since the creation of a Limiter.
type Stats struct {
	Admitted, Refused uint64 // decisions of the server or the Decider
	Failures          uint64 // decisions by Config.OnFailure
	Timeouts          uint64 // of these, because of ErrTimeout
	BreakerOpen       bool   // whether the circuit breaker is open now
	Waiting           int    // requests that wait in Wait now
	Pending           int    // calls of the server that have not returned
}

// Limiter admits or refuses requests. It is safe for concurrent use.
type Limiter struct {
	client  Client
	cfg     Config
	slots   chan struct{}
	breaker breaker
	local   *local
	queues  queues

	admitted, refused, failures, timeouts atomic.Uint64
}

// New returns a Limiter that uses a client of go-redis.
//
// The timeouts of the client do not affect requests, because Config.Timeout does not depend on them. Its ReadTimeout
// and MaxRetries determine how long a call occupies one of Config.MaxCalls when the server does not answer.
func New(client Client, cfg Config) *Limiter {
	cfg.setDefaults()
	return &Limiter{
		client:  client,
		cfg:     cfg,
		slots:   make(chan struct{}, cfg.MaxCalls),
		breaker: breaker{failures: cfg.Failures, cooldown: cfg.Cooldown, changed: cfg.OnBreaker},
		local:   newLocal(cfg.Share, cfg.LocalKeys),
		queues:  queues{max: cfg.MaxWaiters, byKey: map[string]*queue{}},
	}
}

// setDefaults replaces values that are not positive by the defaults.
func (c *Config) setDefaults() {
	setDefault(&c.Share, 1)
	c.Share = min(c.Share, 1)
	setDefault(&c.LocalKeys, 1<<16)
	setDefault(&c.Timeout, 20*time.Millisecond)
	setDefault(&c.MaxCalls, 1024)
	setDefault(&c.Failures, 5)
	setDefault(&c.Cooldown, time.Second)
	setDefault(&c.MaxWaiters, 1024)
	if c.OnError == nil {
		c.OnError = func(error) {}
	}
	if c.OnBreaker == nil {
		c.OnBreaker = func(bool) {}
	}
}

func setDefault[T int | float64 | time.Duration](value *T, standard T) {
	if *value > 0 {
		return
	}
	*value = standard // also instead of NaN
}

// Allow decides a request, and charges it if it is admitted. It returns within Config.Timeout, or the timeout of
// Config.Decider. The error is not nil only if
// ctx is done before there is a decision; the request may have been charged then.
func (l *Limiter) Allow(ctx context.Context, r Request) (Decision, error) {
	if r.isExempt() {
		return Decision{State: unlimited, Source: FromExemption}, nil
	}
	d, err := l.check(ctx, &r)
	switch {
	case err == nil && d.Admitted:
		l.admitted.Add(1)
	case err == nil:
		l.refused.Add(1)
	case ctx.Err() != nil:
		return Decision{}, fmt.Errorf("check a limit: %w", context.Cause(ctx))
	default:
		d = l.decideByPolicy(&r, err)
	}
	return d, nil
}

// check returns the decision of the server or the Decider.
func (l *Limiter) check(ctx context.Context, r *Request) (Decision, error) {
	if l.cfg.Decider != nil && r.hasLimits() {
		return l.askDecider(ctx, r)
	}
	args, err := r.args()
	if err != nil {
		return Decision{}, err
	}
	reply, err := l.guardedCall(ctx, args)
	if err != nil {
		return Decision{}, err
	}
	return r.parse(reply)
}

// guardedCall calls the server unless the circuit breaker is open.
func (l *Limiter) guardedCall(ctx context.Context, args []any) (any, error) {
	epoch, permitted := l.breaker.begin()
	if !permitted {
		return nil, ErrBreakerOpen
	}
	reply, err := l.call(ctx, args)
	var replied redis.Error
	switch {
	case err == nil, errors.As(err, &replied):
		l.breaker.end(epoch, succeeded)
	case ctx.Err() != nil, errors.Is(err, ErrTooManyCalls): // these do not show that the server is down
		l.breaker.end(epoch, abandoned)
	default:
		l.breaker.end(epoch, failed)
	}
	return reply, err
}

// call calls the server, and waits for at most Config.Timeout. The call itself is not canceled: go-redis would close the
// connection, and a short pause of the server would then be followed by a burst of new connections. In addition, go-redis
// ignores the deadlines of contexts by default.
func (l *Limiter) call(ctx context.Context, args []any) (any, error) {
	select {
	case l.slots <- struct{}{}:
	default:
		return nil, ErrTooManyCalls
	}
	type result struct {
		reply any
		err   error
	}
	done := make(chan result, 1)
	go func() {
		defer func() { <-l.slots }()
		reply, err := l.client.Do(context.WithoutCancel(ctx), args...).Result()
		done <- result{reply, err}
	}()
	timer := time.NewTimer(l.cfg.Timeout)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.reply, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timer.C:
		l.timeouts.Add(1)
		return nil, ErrTimeout
	}
}

// decideByPolicy decides a request that the server has not decided because of err.
func (l *Limiter) decideByPolicy(r *Request, err error) Decision {
	l.failures.Add(1)
	l.cfg.OnError(err)
	d := Decision{State: unlimited}
	switch {
	case l.cfg.OnFailure == Closed:
		d.State = State{RetryAfter: l.cfg.Cooldown, ResetAfter: l.cfg.Cooldown}
	case l.cfg.OnFailure == Local && len(r.Limits) > 0:
		d = l.local.decide(r)
	}
	d.Source, d.Err = FromPolicy, err
	return d
}

// Unavailable reports whether the request is refused because it could not be decided: by the policy Closed, or by
// "on_failure: closed" of a limit of the rules.
func (d *Decision) Unavailable() bool {
	return !d.Admitted && (d.Err != nil && d.Limits == nil || slices.Contains(d.Flags, "failclosed"))
}

// Stats returns the present counters.
func (l *Limiter) Stats() Stats {
	return Stats{
		Admitted: l.admitted.Load(), Refused: l.refused.Load(),
		Failures: l.failures.Load(), Timeouts: l.timeouts.Load(),
		BreakerOpen: l.breaker.isOpen(), Waiting: l.queues.length(), Pending: len(l.slots),
	}
}
