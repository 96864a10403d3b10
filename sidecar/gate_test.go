package sidecar

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/topology"
)

// simulated is a network of nodes that are connected with pipes. It counts the dials.
type simulated struct {
	nodes map[string]*node
	dials atomic.Int32
}

func (s *simulated) dial(_ context.Context, addr string) (net.Conn, error) {
	s.dials.Add(1)
	near, far := net.Pipe()
	go s.nodes[addr].serve(far, "")
	return near, nil
}

// refusedBy returns the error of a connection that a node has refused.
func refusedBy(addr, reply string) *topology.ConnRefusedError {
	return &topology.ConnRefusedError{Node: addr, Err: &authError{reply}}
}

// TestGate checks the times at which dials are permitted after a refusal.
func TestGate(t *testing.T) {
	for _, tt := range []struct {
		reply string
		pause time.Duration // the longest one; the shortest is half of it
	}{{"-ERR max number of clients reached", maxBackoff}, {"-WRONGPASS invalid", authBackoff}} {
		var g gate
		at := time.Now()
		check := func(step string, after time.Duration, addr string, want bool) {
			t.Helper()
			if at = at.Add(after); (g.enter(addr, at) == nil) != want {
				t.Errorf("%s, %s: a dial to %s is permitted: %t, want %t", tt.reply, step, addr, !want, want)
			}
		}
		check("before a refusal", 0, "a", true)
		g.refuse(refusedBy("a", tt.reply), at)
		check("after a refusal", tt.pause/2-1, "a", false)
		check("another address", 0, "b", true)
		check("after the pause", tt.pause/2+1, "a", true)
		check("a second dial after the pause", tt.pause/2-1, "a", false)
		g.refuse(refusedBy("a", tt.reply), at)
		check("after a second refusal", tt.pause/2-1, "a", false)
		check("after the second pause", tt.pause/2+1, "a", true)
		check("after a dial that was not refused", tt.pause, "a", true)
		check("immediately afterwards", 0, "a", true)
		g.refuse(refusedBy("a", tt.reply), at)
		g.accept("b")
		check("after another address has accepted a connection", 0, "a", false)
		g.accept("a")
		check("after the address has accepted a connection", 0, "a", true)
	}
}

// TestUpstream_Refused refuses the connections of 20 concurrent clients for 3 s, as an upstream with too many clients. Each of their
// connections is counted once, and they are few.
func TestUpstream_Refused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &simulated{nodes: map[string]*node{"a:1": {}}}
		u := New(Config{Credentials: Credentials{dial: s.dial}})
		const clients, outage = 20, 3 * time.Second
		var running sync.WaitGroup
		for end := time.Now().Add(outage); time.Now().Before(end); <-time.After(4 * time.Millisecond) { // virtual time
			for range clients {
				running.Go(func() {
					conn, err := u.Dial(t.Context(), "a:1")
					if err != nil {
						return
					}
					<-time.After(time.Millisecond) // virtual: the time until the reply
					_ = conn.Close()
					u.Refused(refusedBy("a:1", "-ERR max number of clients reached"))
				})
			}
		}
		running.Wait()
		if dials, most := s.dials.Load(), int32(clients+outage/(maxBackoff/2)); dials > most || dials < clients || uint64(dials) != u.Upstream().Failures {
			t.Errorf("%d dials, and %d failures were counted; want %d to %d, and each counted once", dials, u.Upstream().Failures, clients, most)
		}
	})
}

// TestUpstream_WrongPassword changes the password of a while a connection is open. Only the first dial must send the wrong password
// to a, and its error is logged with the user. Dials to b, which has the old password, succeed.
func TestUpstream_WrongPassword(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &node{role: leaderRole(), reply: ":0", password: "app:secret"}, &node{password: "app:secret"}
		s := &simulated{nodes: map[string]*node{"a:1": a, "b:1": b}}
		file := filepath.Join(t.TempDir(), "password")
		write(t, file, "secret")
		var log logBuffer
		u := run(t, Config{Addresses: []string{"a:1"}, Credentials: Credentials{User: "app", PasswordFile: file, dial: s.dial}, Log: slog.New(slog.NewTextHandler(&log, nil))})
		u.await(t, "a:1")
		a.setPassword("app:changed")
		dial := func(addr string) error {
			conn, err := u.Dial(t.Context(), addr)
			if err == nil {
				_ = conn.Close()
			}
			return err
		}
		for range 3 {
			if err := dial("b:1"); err != nil {
				t.Errorf("Dial to the other address: %v", err)
			}
			if err, refused := dial("a:1"), new(topology.ConnRefusedError); !errors.As(err, &refused) || !strings.Contains(err.Error(), "WRONGPASS") {
				t.Errorf("Dial: error %v, want a ConnRefusedError with WRONGPASS", err)
			}
		}
		if n := a.countLogins(); n != 2 {
			t.Errorf("%d passwords were sent, want that of the probe and a wrong one", n)
		}
		if text := log.String(); strings.Count(text, "the upstream refuses connections") != 1 || !strings.Contains(text, "user=app") {
			t.Errorf("the log has not one line about the refused connections with the user:\n%s", text)
		}
		if st := u.Upstream(); st.Address != "a:1" || st.Failures != 1 {
			t.Errorf("got the status %+v, want the address in use and 1 failure", st)
		}
	})
}
