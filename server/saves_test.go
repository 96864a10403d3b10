package server

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// TestShutdownOutlastsNoPipelineOfSaves ends a server while a client still has many snapshots
// to ask for: no other is begun once its time is up.
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
	if !eventually(func() bool { return s.snapshot()[0].hungUp.Load() }) {
		t.Fatal("the connection is not ended when its time is up")
	}
	snapshots.release <- struct{}{}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown returns %v", err)
	}
	if n := snapshots.Status().Saves; n != 1 {
		t.Errorf("%d snapshots are written", n)
	}
}

// TestGoneClientSavesNoMore has a client go that has asked for many snapshots.
func TestGoneClientSavesNoMore(t *testing.T) {
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
		return len(s.snapshot()) == 0
	})
	if !left || saves > 3 {
		t.Errorf("%d snapshots are written for somebody who has gone", saves)
	}
}

// TestMutedSave drops the reply to SAVE and nothing else, although SAVE writes what there is.
func TestMutedSave(t *testing.T) {
	t.Parallel()
	p := setup{snapshots: &fakeSnapshots{}}.start(t).dial()
	p.send(ping + request("CLIENT", "REPLY", "SKIP") + request("SAVE") + request("ECHO", "x"))
	p.expect("+PONG\r\n" + bulk("x"))
	p.do("+PONG\r\n", "PING")
}
