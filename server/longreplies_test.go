package server

import (
	"testing"
	"testing/synctest"
)

// longReplies are commands whose replies may be long.
var longReplies = [][]string{
	{"CLIENT", "LIST"}, {"COMMAND"}, {"COMMAND", "DOCS"}, {"COMMAND", "INFO"}, {"KEYS", "*"},
	{"PUBSUB", "CHANNELS"}, {"PUBSUB", "NUMPAT"}, {"SCAN", "0"}, {"SLOWLOG", "GET"},
}

// takeLong takes the place of all long replies that may be made at a time.
func (s *testServer) takeLong() (release func()) {
	for range maxLong {
		s.clientMemory.long <- struct{}{}
	}
	return func() {
		for range maxLong {
			<-s.clientMemory.long
		}
	}
}

// TestLongRepliesWait sees that no more long replies are made at a time than may be.
func TestLongRepliesWait(t *testing.T) {
	for _, call := range longReplies {
		synctest.Test(t, func(t *testing.T) {
			s, ln := setup{}.startPiped(t)
			p := newPeer(t, ln.connect())
			release := s.takeLong()
			answered := make(chan value, 1)
			go func() { answered <- p.ask(call...) }()
			synctest.Wait()
			if len(answered) > 0 {
				t.Errorf("%q does not wait", call)
			}
			release()
			if got := <-answered; got.kind == '-' {
				t.Errorf("%q: %s", call, got)
			}
		})
	}
}
