package client

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of the requests that wait for the server.
const (
	maxWaiting = 4096
	maxBatch   = 512 // in one pipeline
	maxSent    = 8   // pipelines that are not answered
)

// ahead is the time after which the next pipeline is sent although the last one is not answered: otherwise a request would wait for
// up to two round trips to a server that is far away.
const ahead = 10 * time.Millisecond

// request is a request that the server must decide.
type request struct {
	command []any
	taken   atomic.Bool // by the forwarder, which sends it, or by its caller, which does not wait any longer
	result  chan result
}

// result is a reply, or the reason why there is none. The reply of the server is an error or a value.
type result struct {
	reply any
	err   error
}

// forwarder sends requests to the server. Those that arrive while a pipeline is not answered are sent in the next one.
type forwarder struct {
	upstream *upstream
	timeout  time.Duration
	queue    chan *request
	sent     chan struct{} // one element for each pipeline that is not answered
	sending  sync.WaitGroup
	closed   chan struct{} // closed when run returns
}

func newForwarder(u *upstream, timeout time.Duration) *forwarder {
	return &forwarder{upstream: u, timeout: timeout, queue: make(chan *request, maxWaiting), sent: make(chan struct{}, maxSent), closed: make(chan struct{})}
}

// ask returns the reply to a command. It returns ErrTimeout after the timeout, ErrBusy if too many requests wait,
// ErrClosed when run has returned, and the cause of ctx when ctx is done. The server may have run the command then.
func (f *forwarder) ask(ctx context.Context, command []any) (any, error) {
	r := &request{command: command, result: make(chan result, 1)}
	select {
	case f.queue <- r:
	default:
		return nil, ErrBusy
	}
	timer := time.NewTimer(f.timeout)
	defer timer.Stop()
	select {
	case got := <-r.result:
		return got.reply, got.err
	case <-f.closed:
		return nil, ErrClosed
	case <-ctx.Done():
		r.taken.Store(true)
		return nil, context.Cause(ctx)
	case <-timer.C:
		r.taken.Store(true)
		f.upstream.failed()
		return nil, ErrTimeout
	}
}

// run sends requests until ctx is done.
func (f *forwarder) run(ctx context.Context) {
	defer close(f.closed)
	defer f.sending.Wait()
	for {
		f.sent <- struct{}{} // the wait ends when a pipeline is answered, or after the timeout
		select {
		case <-ctx.Done():
			return
		case r := <-f.queue:
			f.start(f.gather(r))
		}
	}
}

// start sends a batch of requests, and returns when they are answered or the next one may be sent.
func (f *forwarder) start(batch []*request) {
	answered := make(chan struct{})
	f.sending.Go(func() {
		f.send(batch)
		<-f.sent
		close(answered)
	})
	timer := time.NewTimer(ahead)
	defer timer.Stop()
	select {
	case <-answered:
	case <-timer.C:
	}
}

// gather returns the requests that wait, without those whose callers have stopped waiting.
func (f *forwarder) gather(r *request) (batch []*request) {
	for {
		if r.taken.CompareAndSwap(false, true) {
			batch = append(batch, r)
		}
		if len(batch) == maxBatch {
			return batch
		}
		select {
		case r = <-f.queue:
		default:
			return batch
		}
	}
}

// send sends a batch of requests and waits for the replies, for at most the timeout.
func (f *forwarder) send(batch []*request) {
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), f.timeout)
	defer cancel()
	commands := make([][]any, len(batch))
	for i, r := range batch {
		commands[i] = r.command
	}
	replies, err := f.upstream.exchange(ctx, commands)
	if err == ErrTimeout {
		f.upstream.failed()
	}
	for i, r := range batch {
		if err != nil {
			r.result <- result{err: err}
			continue
		}
		r.result <- result{reply: replies[i]}
	}
}
