package cluster

import (
	"context"
	"errors"
	"io"
	"slices"
	"syscall"
	"time"

	"github.com/throttledhq/throttled/topology"
)

// The pause before the leader is dialed again doubles each time, from firstWatchPause to lastWatchPause.
const (
	firstWatchPause = 5 * time.Millisecond
	lastWatchPause  = time.Second
)

// leaderWatch detects that the process of the leader has exited. It keeps an idle stream to the leader open. The
// stream breaks when the process exits, long before a heartbeat is missed.
type leaderWatch struct {
	raft    *raftHandle
	view    *observer
	timeout *leaderTimeout
	setting *heartbeatSetting
	peers   *peerClient
	life    *lifetime
}

// run watches the leader until the node is closed.
func (w *leaderWatch) run() {
	for {
		changed, l := w.view.View().Changed, w.raft.leading()
		if l.leader == "" || l.leader == w.view.self {
			if !w.view.await(changed) {
				return
			}
			continue
		}
		if !w.watchWhile(l, changed) {
			return
		}
	}
}

// watchWhile watches a leader until the leader or the term changes, and returns true. It returns false if the node is
// closed first.
func (w *leaderWatch) watchWhile(l leaderTerm, changed <-chan struct{}) bool {
	ctx, cancel := context.WithCancel(w.life.ctx)
	defer cancel()
	w.life.run(func() { w.watch(ctx, l) })
	for w.raft.leading() == l {
		if !w.view.await(changed) {
			return false
		}
		changed = w.view.View().Changed
	}
	return true
}

// watch keeps a stream to a leader open until ctx is done. A stream can break for several reasons, so watch treats the
// process as exited only if a new connection is refused. If Raft has received a message from the leader since the
// previous refusal, the leader is still running, and watch ignores the new refusal: a firewall may have caused it.
func (w *leaderWatch) watch(ctx context.Context, l leaderTerm) {
	var before time.Time // time of the last refusal; zero if a stream has been open since
	for pause := firstWatchPause; ctx.Err() == nil; pause = min(2*pause, lastWatchPause) {
		begun := time.Now()
		switch err := w.holdStream(ctx, l); {
		case err == nil:
			before = time.Time{}
		case errors.Is(err, syscall.ECONNREFUSED):
			if before.IsZero() {
				w.life.run(func() { w.timeout.checkAfterExit(ctx, candidates(w.view.View(), l.leader)) })
			}
			if before.IsZero() || !w.raft.LastContact().After(before) {
				w.view.recordRefusal(l)
			}
			before = time.Now()
		}
		if time.Since(begun) > lastWatchPause { // the stream was open
			pause = firstWatchPause
			continue
		}
		if w.life.sleep(ctx, pause) != nil {
			return
		}
	}
}

// candidates returns the number of voters that become candidates before this node if the process of the leader has
// exited. It returns -1 if this node is not a voter.
func candidates(v *topology.View, leader string) int {
	ids := []string{}
	for _, m := range voters(v) {
		if m.ID != leader {
			ids = append(ids, m.ID)
		}
	}
	return slices.Index(ids, v.Self)
}

// holdStream opens a stream to a leader, and blocks until the stream breaks or ctx is done. It returns an error if the
// stream cannot be opened.
func (w *leaderWatch) holdStream(ctx context.Context, l leaderTerm) error {
	dialing, cancel := context.WithTimeout(ctx, w.setting.heartbeat())
	defer cancel()
	conn, err := w.peers.dial(dialing, l.leader)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_, _ = io.Copy(io.Discard, conn) // returns when the stream breaks
	_ = conn.Close()
	return nil
}
