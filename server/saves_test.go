package server

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// TestShutdownOutlastsNoPipelineOfSaves calls Shutdown with a canceled context while many pipelined SAVE commands of a
// client are pending. No further snapshot may start.
func TestShutdownOutlastsNoPipelineOfSaves(t *testing.T) {
	t.Parallel()
	snapshots := slowSnapshots()
	s := setup{snapshots: snapshots}.start(t)
	p := s.dial()
	p.send(strings.Repeat(request("SAVE"), 100))
	<-snapshots.entered
	over, cancel := context.WithCancel(t.Context())
	cancel()
	ended := make(chan error)
	go func() { ended <- s.Shutdown(over) }()
	if !eventually(func() bool { return s.sortedClients()[0].conn.closing.hungUp.Load() }) {
		t.Fatal("the connection is not closed after the context is canceled")
	}
	snapshots.release <- struct{}{}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown returns %v, want context.Canceled", err)
	}
	if n := snapshots.Status().Saves; n != 1 {
		t.Errorf("%d snapshots were written, want 1", n)
	}
}

// TestGoneClientDoesNotSave closes the connection of a client that has pipelined many SAVE commands. At most two more
// snapshots may start after that.
func TestGoneClientDoesNotSave(t *testing.T) {
	t.Parallel()
	snapshots := slowSnapshots()
	s := setup{snapshots: snapshots}.start(t)
	p := s.dial()
	p.send(strings.Repeat(request("SAVE"), 100))
	<-snapshots.entered
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	saves := 1
	left := eventually(func() bool {
		select {
		case <-snapshots.entered:
			saves++
		case snapshots.release <- struct{}{}:
		default:
		}
		return len(s.sortedClients()) == 0
	})
	if !left || saves > 3 {
		t.Errorf("%d snapshots were started, want at most 3; in addition, the server must remove the closed connection", saves)
	}
}

// TestMutedSave checks that CLIENT REPLY SKIP drops only the reply to SAVE, although SAVE flushes
// earlier replies first.
func TestMutedSave(t *testing.T) {
	t.Parallel()
	p := setup{snapshots: &fakeSnapshots{}}.start(t).dial()
	p.send(ping + request("CLIENT", "REPLY", "SKIP") + request("SAVE") + request("ECHO", "x"))
	p.expect("+PONG\r\n" + bulk("x"))
	p.do("+PONG\r\n", "PING")
}
