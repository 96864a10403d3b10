package forward

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// within is the time from the beginning of a call until Batch.Until, in the tests below.
const within = 50 * time.Millisecond

// limited forwards calls that must be sent and answered in the time within, and checks how long this takes.
func limited(t *testing.T, f *Forwarder, b *Batch, took time.Duration) error {
	t.Helper()
	begun := time.Now()
	b.Until = begun.Add(within)
	err := f.Forward("a", 2, b.Until, b)
	if got := time.Since(begun); got != took {
		t.Errorf("Forward returns after %v, want %v", got, took)
	}
	return err
}

// TestUntil_Silent checks that the time until a stream is open, or until an earlier call is answered, and the time of a reply
// that does not arrive are together not longer than the time until Batch.Until.
func TestUntil_Silent(t *testing.T) {
	for name, sharing := range map[string]bool{"shared stream": true, "own stream": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &recorder{await: make(chan struct{})}
				f := New(dialFunc(func(ctx context.Context, to string) (net.Conn, error) {
					<-time.After(within * 4 / 5) // the time of the handshake
					return r.dial(ctx, to)
				}))
				f.SetLeader("a")
				b := Batch{Calls: []Call{{Args: words("DEL k"), Writes: true}, {Args: words("TTL k")}}, Shared: sharing}
				if err := limited(t, f, &b, within); err != ErrSilent || b.Calls[0].Outcome != Uncertain || b.Calls[1].Outcome != Refused {
					t.Errorf("got error %v, outcomes %d and %d, want ErrSilent, Uncertain and Refused", err, b.Calls[0].Outcome, b.Calls[1].Outcome)
				}
				if f.Uncertain.Load() != 1 || f.Errors.Load() != 1 || f.Commands.Load() != 0 {
					t.Errorf("%d uncertain calls, %d errors and %d commands are counted, want 1, 1 and 0", f.Uncertain.Load(), f.Errors.Load(), f.Commands.Load())
				}
				close(r.await)
				f.Close()
			})
		})
	}
}

// TestUntil_Part checks that calls whose replies arrive before Batch.Until are answered, although later ones are not.
func TestUntil_Part(t *testing.T) {
	for _, sharing := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := New(leader(func(command string) []byte {
				if command == "DEL late" {
					<-time.After(2 * within)
				}
				return []byte("+" + command + "\r\n")
			}))
			f.SetLeader("a")
			b := Batch{Calls: []Call{{Args: words("DEL k"), Writes: true}, {Args: words("DEL late"), Writes: true}, {Args: words("TTL k")}}, Shared: sharing}
			err := limited(t, f, &b, within)
			if err != ErrSilent || b.Calls[0].Outcome != Answered || string(b.Calls[0].Reply) != "+DEL k\r\n" || b.Calls[1].Outcome != Uncertain || b.Calls[2].Outcome != Refused {
				t.Errorf("shared %t: got error %v, calls %+v, want ErrSilent, and the outcomes Answered, Uncertain and Refused", sharing, err, b.Calls)
			}
			<-time.After(2 * within) // until the leader has replied
			f.Close()
		})
	}
}

// TestUntil_LateReply checks that a call whose reply comes after Batch.Until does not get the reply, and that the next call
// on the same stream gets its own.
func TestUntil_LateReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{delay: within * 4 / 5}
		f := New(dialFunc(r.dial))
		f.SetLeader("a")
		var wait sync.WaitGroup
		try := func(line string, took time.Duration, want Outcome, wantErr error) {
			wait.Go(func() {
				b := Batch{Calls: []Call{{Args: words(line), Writes: true}}, Shared: true}
				err := limited(t, f, &b, took)
				if c := b.Calls[0]; c.Outcome != want || !errors.Is(err, wantErr) || want == Answered && string(c.Reply) != "+"+line[len("DEL "):]+"\r\n" {
					t.Errorf("%s: got outcome %d, reply %q, error %v, want %d, %v", line, c.Outcome, c.Reply, err, want, wantErr)
				}
			})
			synctest.Wait()
		}
		try("DEL first", r.delay, Answered, nil)
		try("DEL behind", within, Uncertain, ErrSilent) // sent when the first call is answered
		<-time.After(2*r.delay - 1)                     // until the late reply arrives
		try("DEL last", r.delay+1, Answered, nil)
		wait.Wait()
		if r.dials != 1 || f.Commands.Load() != 2 {
			t.Errorf("%d streams were dialed and %d commands counted, want 1 and 2", r.dials, f.Commands.Load())
		}
		f.Close()
	})
}

// TestUntil_NotSent checks that a batch which was not sent until Batch.Until is Refused.
func TestUntil_NotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(dialFunc(hangingNode))
		f.SetLeader("a")
		b := Batch{Calls: []Call{{Args: words("DEL k"), Writes: true}}, Shared: true}
		if err := limited(t, f, &b, within); err == nil || b.Calls[0].Outcome != Refused {
			t.Errorf("got error %v, outcome %d, want an error and Refused", err, b.Calls[0].Outcome)
		}
		f.Close()
	})
}

// TestUntil_Waits checks that a command which waits postpones the end of the exchange by its time, also for the commands
// behind it.
func TestUntil_Waits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(leader(func(command string) []byte {
			if command == "WAIT 1 100" {
				<-time.After(2 * within) // the time of WAIT
			}
			return []byte("+OK\r\n")
		}))
		f.SetLeader("a")
		b := Batch{Calls: []Call{{Args: words("WAIT 1 100"), Wait: 2 * within}, {Args: words("DEL k"), Writes: true}}}
		if err := limited(t, f, &b, 2*within); err != nil || b.Calls[1].Outcome != Answered {
			t.Errorf("got error %v, outcome %d, want no error and Answered", err, b.Calls[1].Outcome)
		}
		f.Close()
	})
}

// TestOpen_Slow checks that a stream which takes longer to open than its callers wait is open for later callers.
func TestOpen_Slow(t *testing.T) {
	for name, sharing := range map[string]bool{"shared stream": true, "own stream": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var dials atomic.Int32
				node := leader(ok)
				f := New(dialFunc(func(ctx context.Context, to string) (net.Conn, error) {
					dials.Add(1)
					select {
					case <-time.After(2 * within): // the time of the handshake
						return node(ctx, to)
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}))
				f.Timeouts.Open = 4 * within
				f.SetLeader("a")
				ask := func() (Outcome, error) {
					b := Batch{Calls: []Call{{Args: words("DEL k"), Writes: true}}, Shared: sharing, Until: time.Now().Add(within)}
					err := f.Forward("a", 2, b.Until, &b)
					return b.Calls[0].Outcome, err
				}
				if outcome, err := ask(); outcome != Refused || err == nil {
					t.Errorf("while the stream is opened: outcome %d, error %v, want Refused", outcome, err)
				}
				<-time.After(2 * within)
				if outcome, err := ask(); outcome != Answered || err != nil {
					t.Errorf("when the stream is open: outcome %d, error %v, want Answered", outcome, err)
				}
				if n := dials.Load(); n != 1 {
					t.Errorf("%d streams were opened, want 1", n)
				}
				f.Close()
			})
		})
	}
}
