package middleware

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Reasons for which Wait returns without an admission.
var (
	// ErrQueueFull means that Config.MaxWaiters requests are waiting.
	ErrQueueFull = errors.New("too many requests are waiting")
	// ErrDeadline means that the wait would exceed the deadline of the context.
	ErrDeadline = errors.New("the wait would exceed the deadline")
	// ErrNeverAdmitted means that no wait helps, because the request exceeds the whole limit.
	ErrNeverAdmitted = errors.New("the request exceeds the whole limit")
)

// Wait decides a request like Allow, and waits until it is admitted. Requests with equal attributes, or with equal keys
// of their Limits, are admitted in the order of their arrival in this process. The number of waiting requests is bounded
// by Config.MaxWaiters. Wait returns immediately if the wait would exceed the deadline of ctx.
//
// The error is nil if the request is admitted. Otherwise it wraps one of ErrQueueFull, ErrDeadline and ErrNeverAdmitted, or
// the error of ctx, and the Decision is that of the last refusal, if there was one.
func (l *Limiter) Wait(ctx context.Context, r Request) (Decision, error) {
	d, err := l.waitAdmitted(ctx, &r)
	if err != nil {
		return d, fmt.Errorf("wait for a limit: %w", err)
	}
	if err := d.AwaitTurn(ctx); err != nil {
		return d, fmt.Errorf("wait for the turn of an admitted request: %w", err)
	}
	return d, nil
}

// waitAdmitted is Wait without the delay of leaky buckets. A request that has to wait joins the queue of its key. The
// first request of a queue is the only one that calls the server.
func (l *Limiter) waitAdmitted(ctx context.Context, r *Request) (d Decision, err error) {
	key := r.queueKey()
	at, queued := l.queues.find(key)
	if !queued {
		if d, err = l.Allow(ctx, *r); err != nil || d.Admitted {
			return d, err
		}
		if d.RetryAfter < 0 {
			return d, ErrNeverAdmitted
		}
		at = time.Now().Add(d.RetryAfter)
	}
	deadline, _ := ctx.Deadline()
	w, err := l.queues.join(key, at, r.spacing(), deadline)
	if err != nil {
		if queued {
			d.RetryAfter = max(time.Until(at), 0)
		}
		return d, err
	}
	defer l.queues.leave(key, w)
	select {
	case <-w.first:
	case <-ctx.Done():
		return d, context.Cause(ctx)
	}
	return l.waitFirst(ctx, r, w.queue)
}

// waitFirst waits as the first request of a queue.
func (l *Limiter) waitFirst(ctx context.Context, r *Request, q *queue) (d Decision, err error) {
	deadline, bounded := ctx.Deadline()
	for {
		at := l.queues.next(q)
		if bounded && at.After(deadline) {
			return d, ErrDeadline
		}
		if err := pause(ctx, time.Until(at)); err != nil {
			return d, err
		}
		last := d
		switch d, err = l.Allow(ctx, *r); {
		case err != nil:
			return last, err
		case d.Admitted:
			return d, nil
		case d.RetryAfter < 0:
			return d, ErrNeverAdmitted
		}
		l.queues.postpone(q, time.Now().Add(d.RetryAfter))
	}
}

// AwaitTurn waits for the Delay of an admitted request. It returns an error if ctx is done before, and immediately if its
// deadline is before.
func (d *Decision) AwaitTurn(ctx context.Context) error { return pause(ctx, d.Delay) }

// pause waits for a time. It returns an error if ctx is done before.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	if deadline, bounded := ctx.Deadline(); bounded && time.Until(deadline) < d {
		return ErrDeadline
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// queues holds the waiting requests by their keys.
type queues struct {
	max int

	mu      sync.Mutex
	waiting int
	byKey   map[string]*queue
}

// queue holds waiting requests in the order of their arrival. It is not empty while it is in queues.byKey.
type queue struct {
	next    time.Time // the first request is not admitted before this time
	waiters []*waiter
}

// waiter is a waiting request.
type waiter struct {
	queue   *queue
	first   chan struct{} // closed when the request is the first of its queue
	spacing time.Duration // least time between the admission of the previous request and that of this one
}

// find reports whether a queue exists, and from which time on its first request can be admitted.
func (q *queues) find(key string) (next time.Time, exists bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if one := q.byKey[key]; one != nil {
		return one.next, true
	}
	return time.Now(), false
}

// join adds a request to a queue. The parameter next is used for a new queue. A deadline of zero is none.
func (q *queues) join(key string, next time.Time, spacing time.Duration, deadline time.Time) (*waiter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	one := q.byKey[key]
	if one == nil {
		one = &queue{next: next}
	}
	w := &waiter{queue: one, first: make(chan struct{}), spacing: spacing}
	switch {
	case !deadline.IsZero() && one.earliest(w).After(deadline):
		return nil, ErrDeadline
	case q.waiting >= q.max:
		return nil, ErrQueueFull
	}
	if len(one.waiters) == 0 {
		close(w.first)
	}
	one.waiters = append(one.waiters, w)
	q.byKey[key] = one
	q.waiting++
	return w, nil
}

// earliest returns the time before which a request that joins the queue is not admitted.
func (one *queue) earliest(joining *waiter) time.Time {
	if len(one.waiters) == 0 {
		return one.next
	}
	at := one.next.Add(joining.spacing)
	for _, w := range one.waiters[1:] {
		at = at.Add(w.spacing)
	}
	return at
}

// leave removes a request from its queue. If it was the first, the next one becomes the first.
func (q *queues) leave(key string, w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	one := w.queue
	at := slices.Index(one.waiters, w)
	one.waiters = slices.Delete(one.waiters, at, at+1)
	q.waiting--
	switch {
	case len(one.waiters) == 0:
		delete(q.byKey, key)
	case at == 0:
		close(one.waiters[0].first)
	}
}

// next returns the time before which the first request of a queue is not admitted.
func (q *queues) next(one *queue) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return one.next
}

// postpone sets the time before which the first request of a queue is not admitted.
func (q *queues) postpone(one *queue, next time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	one.next = next
}

// length returns the number of waiting requests.
func (q *queues) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting
}
