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

// acknowledging is a Transport that sends entries without waiting for each response. It calls the function for each
// acknowledgment.
type acknowledging interface {
	Acknowledged(func(id string, term, index uint64))
}

// tracker is the transport of Raft on a leader. It records the progress of the followers, and holds entries for
// followers that do not answer heartbeats: Raft would retry them at growing intervals of up to ten seconds, and a
// follower that returns would get no entries for as long.
type tracker struct {
	Transport
	// sends reports whether this node sends entries to a follower. It also returns a channel that is closed when that
	// may have changed.
	sends func(raft.ServerID) (changed <-chan struct{}, sends bool)
	ended <-chan struct{}      // closed when this node is closed
	now   func() time.Duration // monotonic clock
	// acknowledged records up to which entry a follower has the log of this node, which leads in a term.
	acknowledged func(id string, term, index uint64)
	// check asks a node once whether it may receive entries, before the first round trip that is measured.
	check      func(id string) error
	roundTrips *roundTrips
	// timeout returns the time without heartbeats after which followers elect another leader. While it is being
	// changed, the leader itself runs with the shortest one of any voter.
	timeout func() time.Duration

	mu       sync.Mutex
	progress map[raft.ServerID]*progress
}

// progress is the progress of one follower in one term. That of an earlier term is dropped: a new leader sends entries
// immediately, and the first heartbeat later.
type progress struct {
	term    uint64
	paused  chan struct{} // closed when the follower answers heartbeats again; nil if the last heartbeat was answered
	heard   bool          // the follower has responded in this term
	last    uint64        // index of the newest entry in its log, in its last response
	heardAt time.Duration // time of its last response
}

// AppendEntries sends a heartbeat, or sends entries when the follower answers heartbeats.
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

// isHeartbeat reports whether Raft's own transport treats a request as a heartbeat.
func isHeartbeat(a *raft.AppendEntriesRequest) bool {
	return a.PrevLogEntry == 0 && a.PrevLogTerm == 0 && len(a.Entries) == 0 && a.LeaderCommitIndex == 0
}

// newest returns the index of the newest entry in the log of a follower after its response.
func newest(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) uint64 {
	if n := len(args.Entries); n > 0 && resp.Success {
		return args.Entries[n-1].Index // LastLog does not include them
	}
	return resp.LastLog
}

// in returns the progress of a follower in a term, or nil if there has been a later term. t.mu is held.
func (t *tracker) in(id raft.ServerID, term uint64) *progress {
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

// resume sends the entries that are held for the follower.
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
	switch p := t.in(id, term); {
	case p == nil:
	case answered:
		p.resume()
	case p.paused == nil:
		p.paused = make(chan struct{})
	}
}

// recordResponse records a response of a follower, with the index of the newest entry in its log.
func (t *tracker) recordResponse(id raft.ServerID, term, last uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.in(id, term); p != nil {
		p.heard, p.last, p.heardAt = true, last, t.now()
	}
}

// await blocks while a follower does not answer heartbeats and this node sends entries to it.
func (t *tracker) await(id raft.ServerID, term uint64) {
	for {
		paused := t.paused(id, term)
		changed, sends := t.sends(id)
		if paused == nil || !sends {
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

// paused returns a channel that is closed when a follower answers heartbeats again, or nil if it does.
func (t *tracker) paused(id raft.ServerID, term uint64) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.progress[id]; p != nil && p.term == term {
		return p.paused
	}
	return nil
}

// follower returns the progress of a follower in a term. It answers if its last heartbeat was answered, and its last
// response is at most patience ago.
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

// Close closes the transport. Raft calls it at its shutdown.
func (t *tracker) Close() error {
	if closing, ok := t.Transport.(raft.WithClose); ok {
		return closing.Close()
	}
	return nil
}

// sendsTo returns a function that reports whether entries for a node may be held: this node leads by Raft, and the other
// one is a member. During a hand-over nothing may be held, as Raft waits for the entries.
func sendsTo(view *observer, s *leaderships) func(raft.ServerID) (changed <-chan struct{}, sends bool) {
	return func(id raft.ServerID) (changed <-chan struct{}, sends bool) {
		v, l := view.View(), s.current()
		return v.Changed, v.Leader == v.Self && v.Find(string(id)) != nil && (l == nil || !l.leaving.Load())
	}
}
