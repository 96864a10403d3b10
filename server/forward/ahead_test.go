package forward

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// farNode returns a Dialer to a leader whose replies arrive a round trip after the calls, also if calls follow each other within
// it. The function sent is called for each read.
func farNode(trip time.Duration, sent func()) dialFunc {
	return func(context.Context, string) (net.Conn, error) {
		near, far := net.Pipe()
		type reply struct {
			at   time.Time
			text []byte
		}
		replying := make(chan reply, 100)
		go func() {
			for r := range replying {
				<-time.After(time.Until(r.at)) // the rest of the round trip
				_, _ = far.Write(r.text)
			}
		}()
		go func() {
			defer close(replying)
			buf := make([]byte, 1<<20)
			for {
				n, err := far.Read(buf)
				if err != nil {
					return
				}
				sent()
				replying <- reply{time.Now().Add(trip), replies(string(buf[:n]))}
			}
		}()
		return near, nil
	}
}

// TestAhead checks that a call over a long distance waits at most Timeouts.Ahead until it is sent, that each caller gets its own
// reply, and that calls which arrive within this time are sent together.
func TestAhead(t *testing.T) {
	const trip, ahead, callers, rounds = 30 * time.Millisecond, 10 * time.Millisecond, 30, 20
	synctest.Test(t, func(t *testing.T) {
		writes := 0
		f := New(farNode(trip, func() { writes++ })) // one stream: no concurrent calls
		f.Timeouts.Ahead = ahead
		f.SetLeader("a")
		if call, err := shared(f, "DEL first", time.Hour); err != nil || call.Outcome != Answered { // opens the stream
			t.Fatalf("the first call: outcome %d, error %v", call.Outcome, err)
		}
		begun := time.Now()
		var wait sync.WaitGroup
		for i := range callers {
			wait.Go(func() {
				for k := range rounds {
					<-time.After(time.Duration(i) * time.Millisecond) // the calls of different callers are spread over a round trip
					key, begun := fmt.Sprintf("k%d:%d", i, k), time.Now()
					call, err := shared(f, "DEL "+key, time.Hour)
					if err != nil || call.Outcome != Answered || string(call.Reply) != "+"+key+"\r\n" {
						t.Errorf("call %s: got outcome %d, reply %q, error %v", key, call.Outcome, call.Reply, err)
					}
					if took := time.Since(begun); took > trip+ahead {
						t.Errorf("call %s took %v, want at most %v", key, took, trip+ahead)
					}
				}
			})
		}
		wait.Wait()
		if most := 2 + int(time.Since(begun)/ahead) + 2*int(time.Since(begun)/trip); writes > most {
			t.Errorf("%d writes, want at most %d", writes, most)
		}
		f.Close()
	})
}
