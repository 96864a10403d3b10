package cluster

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/topology"
)

// Transport is the transport that Raft uses.
type Transport interface {
	raft.Transport
	raft.WithPreVote
}

// acknowledging is a Transport that pipelines entries. It calls the function passed to Acknowledged for each
// acknowledgment.
type acknowledging interface {
	Acknowledged(func(id string, term, index uint64))
}

// tracker wraps the transport of Raft. On the leader, it records the progress of the followers and holds entries for
// followers that do not answer heartbeats. Otherwise Raft would retry the sending of these entries at growing intervals
// of up to ten seconds, and a follower that is reachable again would get no entries until the next retry.
type tracker struct {
	Transport
	// mayHold reports whether entries for a follower may be held. It also returns a channel that is closed when the
	// result may have changed.
	mayHold func(raft.ServerID) (changed <-chan struct{}, hold bool)
	ended   <-chan struct{}      // closed when this node is closed
	now     func() time.Duration // monotonic clock
	// acknowledged records that a follower has acknowledged the entries up to index. This node is the leader in term.
	acknowledged func(id string, term, index uint64)
	// check returns an error if no messages may be sent to a node yet. It may block. The time for which it blocks is
	// not part of a measured round trip.
	check      func(id string) error
	roundTrips *roundTrips
	// timeout returns the time without heartbeats after which followers start an election.
	timeout func() time.Duration

	mu       sync.Mutex
	progress map[raft.ServerID]*progress
}

// progress is the progress of one follower in one term. The progress in an earlier term is dropped: a new leader sends
// entries before its first heartbeat, and heartbeats that failed in an earlier term must not delay these entries.
type progress struct {
	term    uint64
	paused  chan struct{} // closed when the follower answers heartbeats again; nil if the last heartbeat was answered
	heard   bool          // the follower has responded in this term
	last    uint64        // index of the newest entry in the follower's log, according to its last response
	heardAt time.Duration // time of the last response
}

// AppendEntries sends a request. If the request is not a heartbeat, AppendEntries first blocks while entries for the
// follower must be held (see await).
func (t *tracker) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	heartbeat := isHeartbeat(args)
	if !heartbeat {
		t.await(id, args.Term)
	}
	err := t.check(string(id))
	start := t.now()
	if err == nil {
		err = t.Transport.AppendEntries(id, target, args, resp)
	}
	if heartbeat {
		t.recordHeartbeat(id, args.Term, err == nil)
	}
	if heartbeat && err == nil {
		end := t.now()
		t.roundTrips.record(string(id), end-start, t.timeout(), end)
	}
	if err == nil {
		t.recordResponse(id, args.Term, newest(args, resp))
		if !heartbeat && resp.Success {
			t.acknowledged(string(id), args.Term, args.PrevLogEntry+uint64(len(args.Entries)))
		}
	}
	return err
}

// isHeartbeat reports whether a request is a heartbeat, with the same conditions as in hashicorp/raft.
func isHeartbeat(a *raft.AppendEntriesRequest) bool {
	return a.PrevLogEntry == 0 && a.PrevLogTerm == 0 && len(a.Entries) == 0 && a.LeaderCommitIndex == 0
}

// newest returns the index of the newest entry in the log of a follower after its response.
func newest(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) uint64 {
	if n := len(args.Entries); n > 0 && resp.Success {
		return args.Entries[n-1].Index // resp.LastLog does not include the new entries
	}
	return resp.LastLog
}

// progressIn returns the progress of a follower in a term, or nil if a later term is known. The caller must hold t.mu.
func (t *tracker) progressIn(id raft.ServerID, term uint64) *progress {
	p := t.progress[id]
	switch {
	case p == nil:
	case p.term == term:
		return p
	case p.term > term:
		return nil
	default:
		p.resume()
	}
	p = &progress{term: term}
	t.progress[id] = p
	return p
}

// resume releases the entries that are held for the follower.
func (p *progress) resume() {
	if p.paused != nil {
		close(p.paused)
		p.paused = nil
	}
}

// recordHeartbeat records whether a follower has answered a heartbeat.
func (t *tracker) recordHeartbeat(id raft.ServerID, term uint64, answered bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch p := t.progressIn(id, term); {
	case p == nil:
	case answered:
		p.resume()
	case p.paused == nil:
		p.paused = make(chan struct{})
	}
}

// recordResponse records a response from a follower. last is the index of the newest entry in the follower's log.
func (t *tracker) recordResponse(id raft.ServerID, term, last uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.progressIn(id, term); p != nil {
		p.heard, p.last, p.heardAt = true, last, t.now()
	}
}

// await blocks while a follower does not answer heartbeats and entries for it may be held.
func (t *tracker) await(id raft.ServerID, term uint64) {
	for {
		paused := t.paused(id, term)
		changed, hold := t.mayHold(id)
		if paused == nil || !hold {
			return
		}
		select {
		case <-paused:
		case <-changed:
		case <-t.ended:
			return
		}
	}
}

// paused returns a channel that is closed when a follower answers heartbeats again, or nil if it has answered the last
// heartbeat.
func (t *tracker) paused(id raft.ServerID, term uint64) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.progress[id]; p != nil && p.term == term {
		return p.paused
	}
	return nil
}

// follower returns the progress of a follower in a term. The field Answers is true if the follower has answered the
// last heartbeat and its last response is not older than patience.
func (t *tracker) follower(id string, term uint64, patience time.Duration) topology.Follower {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := topology.Follower{ID: id}
	if p := t.progress[raft.ServerID(id)]; p != nil && p.term == term && p.heard {
		f.Last, f.Silent = p.last, t.now()-p.heardAt
		f.Answers = p.paused == nil && f.Silent <= patience
	}
	return f
}

// followers returns the progress of all members except this node.
func (t *tracker) followers(v *topology.View, term uint64, patience time.Duration) (list []topology.Follower) {
	for _, m := range v.Members {
		if m.ID != v.Self {
			list = append(list, t.follower(m.ID, term, patience))
		}
	}
	return list
}

// Close closes the transport. Raft calls it during shutdown.
func (t *tracker) Close() error {
	if closing, ok := t.Transport.(raft.WithClose); ok {
		return closing.Close()
	}
	return nil
}

// mayHoldFor returns the function for tracker.mayHold. Entries for a node may be held while this node is the leader in
// its view and the other node is a member. They may not be held during a hand-over, because Raft waits until the
// successor has the entries.
func mayHoldFor(view *observer, s *leaderships) func(raft.ServerID) (changed <-chan struct{}, hold bool) {
	return func(id raft.ServerID) (changed <-chan struct{}, hold bool) {
		v, l := view.View(), s.current()
		return v.Changed, v.Leader == v.Self && v.Find(string(id)) != nil && (l == nil || !l.leaving.Load())
	}
}
