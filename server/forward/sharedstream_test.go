package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// recorder is a leader that the test controls: it records each read, and replies when the test permits it.
type recorder struct {
	mu    sync.Mutex
	reads []string // the bytes of each write of a shared stream
	dials int
	conns []net.Conn
	await chan struct{} // a token permits the replies to one write; nil permits all
	delay time.Duration // before the replies to a write; set while no stream is in use
}

// dial returns a stream to the recorder. After the greeting, each write is one read, because the stream is a pipe.
func (r *recorder) dial(context.Context, string) (net.Conn, error) {
	near, far := net.Pipe()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dials++
	r.conns = append(r.conns, far)
	go r.serve(far)
	return near, nil
}

func (r *recorder) serve(far net.Conn) {
	buf := make([]byte, 1<<20)
	for greeted := false; ; greeted = true {
		n, err := far.Read(buf)
		if err != nil {
			return
		}
		text := string(buf[:n])
		if greeted {
			r.mu.Lock()
			r.reads = append(r.reads, text)
			r.mu.Unlock()
			if r.await != nil {
				<-r.await
			}
			<-time.After(r.delay) // the time of the leader
		}
		if _, err := far.Write(replies(text)); err != nil {
			return
		}
	}
}

// replies returns a reply to each command in text: its last argument. The greeting is answered with OK.
func replies(text string) (out []byte) {
	for _, command := range strings.Split(text, "*")[1:] {
		words := strings.Split(strings.TrimSuffix(command, "\r\n"), "\r\n")
		if last := words[len(words)-1]; last == ChargedCapability {
			out = append(out, "+OK\r\n"...)
		} else {
			out = append(out, "+"+last+"\r\n"...)
		}
	}
	return out
}

func (r *recorder) sizes() (calls []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, text := range r.reads {
		calls = append(calls, strings.Count(text, "*"))
	}
	return calls
}

func (r *recorder) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		_ = c.Close()
	}
	r.conns = nil
}

// shared forwards one command over a shared stream, and returns the call with its outcome.
func shared(f *Forwarder, line string, within time.Duration) (Call, error) {
	b := Batch{Calls: []Call{{Args: words(line), Writes: strings.HasPrefix(line, "DEL")}}, Shared: true}
	err := f.Forward("a", 2, time.Now().Add(within), &b)
	return b.Calls[0], err
}

// TestCarrierGathers checks that calls which arrive while a shared stream waits for replies are sent in one write, and
// that each caller gets its own reply.
func TestCarrierGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{await: make(chan struct{})}
		f := New(dialFunc(r.dial))
		f.SetLeader("a")
		var wait sync.WaitGroup
		send := func(n int) {
			for i := range n {
				wait.Go(func() {
					key := fmt.Sprint("k", i)
					if call, err := shared(f, "DEL "+key, time.Hour); err != nil || call.Outcome != Answered || string(call.Reply) != "+"+key+"\r\n" {
						t.Errorf("call %s: got outcome %d, reply %q, error %v", key, call.Outcome, call.Reply, err)
					}
				})
			}
			synctest.Wait()
		}
		send(1)
		send(20)
		r.await <- struct{}{}
		synctest.Wait()
		r.await <- struct{}{}
		wait.Wait()
		if got := fmt.Sprint(r.sizes()); got != "[1 20]" || r.dials != 1 {
			t.Errorf("the writes have %s calls over %d streams, want [1 20] over 1", got, r.dials)
		}
		f.Close()
	})
}

// TestCarriersAreFew checks that many waiting callers use several shared streams, at most maxShared.
func TestCarriersAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{await: make(chan struct{})}
		f := New(dialFunc(r.dial))
		f.SetLeader("a")
		var wait sync.WaitGroup
		for range 2 * gatherMax * maxShared {
			wait.Go(func() {
				if call, err := shared(f, "TTL k", time.Hour); err != nil || call.Outcome != Answered {
					t.Errorf("got outcome %d, error %v", call.Outcome, err)
				}
			})
		}
		synctest.Wait()
		if r.dials != maxShared {
			t.Errorf("%d streams were dialed, want maxShared", r.dials)
		}
		close(r.await)
		wait.Wait()
		f.Close()
	})
}

// TestCarrierBreaks closes a shared stream while one batch is sent and another one waits. The call that was sent and
// writes must be Uncertain, and the one that only reads Refused. The batch that waits must be sent over a new stream.
func TestCarrierBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{await: make(chan struct{})}
		f := New(dialFunc(r.dial))
		f.SetLeader("a")
		var wait sync.WaitGroup
		try := func(line string, want Outcome, failed bool) {
			wait.Go(func() {
				if call, err := shared(f, line, time.Hour); call.Outcome != want || (err != nil) != failed {
					t.Errorf("%s: got outcome %d, error %v, want %d, and an error: %t", line, call.Outcome, err, want, failed)
				}
			})
		}
		b := Batch{Calls: []Call{{Args: words("DEL a"), Writes: true}, {Args: words("TTL b")}}, Shared: true}
		wait.Go(func() {
			if err := f.Forward("a", 2, time.Now().Add(time.Hour), &b); err == nil || b.Calls[0].Outcome != Uncertain || b.Calls[1].Outcome != Refused {
				t.Errorf("got error %v, outcomes %d and %d, want an error, Uncertain and Refused", err, b.Calls[0].Outcome, b.Calls[1].Outcome)
			}
		})
		synctest.Wait()
		try("DEL waiting", Answered, false)
		synctest.Wait()
		r.drop()
		close(r.await)
		wait.Wait()

		r.drop() // while the stream is idle
		synctest.Wait()
		try("DEL later", Answered, false)
		wait.Wait()
		if r.dials != 3 {
			t.Errorf("%d streams were dialed, want 3", r.dials)
		}
		f.Close()
	})
}

// TestCarrierSilent checks the timeouts of a leader that does not reply: calls that were sent fail after
// Timeouts.Reply, and calls that were not sent at their deadline, without an effect.
func TestCarrierSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{await: make(chan struct{})}
		f := New(dialFunc(r.dial))
		f.SetLeader("a")
		var wait sync.WaitGroup
		begun := time.Now()
		try := func(within, took time.Duration, want Outcome, wantErr error) {
			wait.Go(func() {
				call, err := shared(f, "DEL k", within)
				if call.Outcome != want || !errors.Is(err, wantErr) || time.Since(begun) != took {
					t.Errorf("got outcome %d, error %v after %v, want %d, %v after %v", call.Outcome, err, time.Since(begun), want, wantErr, took)
				}
			})
			synctest.Wait()
		}
		try(time.Millisecond, f.Timeouts.Reply, Uncertain, ErrSilent)
		try(time.Second, time.Second, Refused, errNotSent)
		wait.Wait()
		close(r.await)
		f.Close()
	})
}

// TestCarrierFormerLeader checks that a change of leadership refuses the calls that wait for a shared stream
// immediately, closes an idle one, and closes one in use after Timeouts.FormerLeader.
func TestCarrierFormerLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{await: make(chan struct{})}
		f := New(dialFunc(r.dial))
		f.SetLeader("a")
		var wait sync.WaitGroup
		for _, want := range []Outcome{Uncertain, Refused} {
			wait.Go(func() {
				if call, err := shared(f, "DEL k", time.Hour); call.Outcome != want || err == nil {
					t.Errorf("got outcome %d, error %v, want %d and an error", call.Outcome, err, want)
				}
			})
			synctest.Wait()
		}
		begun := time.Now()
		f.SetLeader("b")
		wait.Wait()
		if took := time.Since(begun); took != f.Timeouts.FormerLeader {
			t.Errorf("the call in flight failed after %v, want Timeouts.FormerLeader", took)
		}
		if _, err := shared(f, "DEL k", time.Hour); err != errNotDialed {
			t.Errorf("a call to a former leader: got error %v, want errNotDialed", err)
		}
		close(r.await)
		f.SetLeader("a")
		if call, err := shared(f, "DEL k", time.Hour); err != nil || call.Outcome != Answered {
			t.Errorf("after the node leads again: got outcome %d, error %v", call.Outcome, err)
		}
		f.SetLeader("")
		synctest.Wait()
		if n := len(f.streams()); n != 0 {
			t.Errorf("%d streams are open without a leader, want 0", n)
		}
		f.Close()
	})
}

// TestCarrierGoaway checks that calls behind a Goaway are Refused without an error, so that they are sent again.
func TestCarrierGoaway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(leader(func(command string) []byte {
			switch command {
			case "DEL a":
				return []byte(notLeadingLine)
			case "DEL c":
				return []byte(goawayLine)
			}
			return []byte("+OK\r\n")
		}))
		f.SetLeader("a")
		b := Batch{Shared: true}
		for _, line := range []string{"DEL a", "DEL b", "DEL c", "DEL d"} {
			b.Calls = append(b.Calls, Call{Args: words(line), Writes: true})
		}
		if err := f.Forward("a", 2, time.Now().Add(time.Second), &b); err != nil {
			t.Error(err)
		}
		for i, want := range []Outcome{Refused, Answered, Refused, Refused} {
			if got := b.Calls[i].Outcome; got != want {
				t.Errorf("the outcome of call %d is %d, want %d", i, got, want)
			}
		}
		f.Close()
	})
}

// TestCarrierNotDialed checks that calls are Refused if the stream cannot be opened.
func TestCarrierNotDialed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(dialFunc(noNode))
		f.SetLeader("a")
		if call, err := shared(f, "DEL k", time.Hour); err == nil || call.Outcome != Refused {
			t.Errorf("got outcome %d, error %v, want Refused and an error", call.Outcome, err)
		}
		f.Close()
	})
}

// TestCarrierBusy checks that ErrBusy is returned immediately if maxWaiters callers wait for each shared stream.
func TestCarrierBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(dialFunc(hangingNode))
		f.SetLeader("a")
		var wait sync.WaitGroup
		for range maxShared * maxWaiters {
			wait.Go(func() {
				if call, err := shared(f, "DEL k", time.Second); err == ErrBusy || call.Outcome != Refused {
					t.Errorf("got outcome %d, error %v, want Refused after a second", call.Outcome, err)
				}
			})
		}
		synctest.Wait()
		begun := time.Now()
		if _, err := shared(f, "DEL k", time.Second); err != ErrBusy || time.Since(begun) != 0 {
			t.Errorf("got error %v after %v, want ErrBusy immediately", err, time.Since(begun))
		}
		wait.Wait()
		f.Close()
	})
}

// TestSharedStreamGathersCallers checks that a shared stream waits for the next batches of its recent callers before it writes, that it
// does so for at most gatherTime or half the time of the last exchange, and not for fewer than gatherMin callers.
func TestSharedStreamGathersCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		f := New(dialFunc(r.dial))
		f.SetLeader("a")
		round := func(callers int, pause, took time.Duration) {
			t.Helper()
			var wait sync.WaitGroup
			begun := time.Now()
			for i := range callers {
				wait.Go(func() {
					<-time.After(time.Duration(i) * pause)
					if call, err := shared(f, "TTL k", time.Hour); err != nil || call.Outcome != Answered {
						t.Errorf("got outcome %d, error %v", call.Outcome, err)
					}
				})
				synctest.Wait()
			}
			wait.Wait()
			if got := time.Since(begun); got != took {
				t.Errorf("%d callers, %v apart: the replies took %v, want %v", callers, pause, got, took)
			}
		}
		expect := func(callers int) {
			f.mu.Lock()
			f.shared[0].callers = callers
			f.mu.Unlock()
		}
		round(1, 0, 0)
		expect(8)
		round(8, gatherTime/10, 7*(gatherTime/10)) // one write, when the last caller has come
		round(6, 0, gatherTime)                    // two callers are missing
		round(6, 0, 0)
		for _, slow := range []struct{ delay, gathers time.Duration }{{4 * time.Millisecond, 2 * time.Millisecond}, {time.Second, gatherLongest}, {0, gatherTime}} {
			expect(8)
			r.delay = slow.delay
			round(8, 0, slow.delay)
			r.delay = 0
			round(6, 0, slow.gathers) // two callers are missing
		}
		if got := fmt.Sprint(r.sizes()); got != "[1 8 6 6 8 6 8 6 8 6]" {
			t.Errorf("the writes have %s calls", got)
		}
		expect(gatherMin - 1)
		round(1, 0, 0)
		f.Close()
	})
}
