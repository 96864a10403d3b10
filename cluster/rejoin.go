package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/topology"
)

// errUnchecked is returned for Raft messages to a node that has not answered both questions of rejoinCheck yet.
var errUnchecked = errors.New("the node has not answered yet whether it has a record of newer data")

const (
	firstRejoinPause = 20 * time.Millisecond // pause before a node that did not answer is asked again; doubles each time
	maxRejoinPause   = time.Second
	// roundWithin is the maximum time between the answer to the first question of rejoinCheck and the second question.
	// The answers of other nodes to the first question are awaited in this time.
	roundWithin = 250 * time.Millisecond
)

// rejoinCheck wraps the transport of Raft. If the process was started with data, rejoinCheck asks each other node two
// questions before any Raft message passes between that node and this one:
//
//   - Does the node have a record of newer data of this node? A vote or an acknowledgment based on an old copy would
//     contradict earlier votes and acknowledgments.
//   - Can the node record the start of this process? This question is asked only if no node has reported newer
//     data. If all nodes answer the first question within roundWithin, an old copy is detected before any node records
//     its start.
//
// The questions are not repeated after both are answered. A node that does not answer does not block messages between
// this node and others.
type rejoinCheck struct {
	Transport
	// ask asks a node one of the questions, and returns the members in the configuration of the node. The error is nil
	// if the node has no record of newer data.
	ask  func(m topology.Member, record bool) (others []topology.Member, err error)
	find func(id string) *topology.Member

	mu       sync.Mutex
	disabled bool // all messages pass, because the node was started without data or is standalone
	checked  map[string]bool
	others   map[string]topology.Member // members in the configurations of the asked nodes
	asking   map[string]chan struct{}   // by node; closed when both questions were answered or one has failed
	first    *round                     // latest round of first questions; nil if there was none
	wake     chan struct{}              // signals that a node that has not answered yet is reachable
}

// round is a set of first questions that are asked concurrently.
type round struct {
	unanswered int           // questions without an answer
	done       chan struct{} // closed when all questions are answered or have failed
}

func newRejoinCheck(t Transport, disabled bool, find func(id string) *topology.Member) *rejoinCheck {
	return &rejoinCheck{
		Transport: t, find: find, disabled: disabled,
		checked: map[string]bool{}, others: map[string]topology.Member{}, asking: map[string]chan struct{}{}, wake: make(chan struct{}, 1),
	}
}

// skip makes all messages pass.
func (r *rejoinCheck) skip() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.disabled = true
}

// allows reports whether a node may open Raft streams to this node. If it returns false, the questions are asked soon.
// If at least one node has answered both questions, and the given node is not a member according to this node and the
// nodes that have answered, the given node has joined after this process was started. Such a node cannot have a record
// of newer data, so it is allowed without questions.
func (r *rejoinCheck) allows(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.checked) > 0 && r.member(id) == nil {
		r.checked[id] = true // never ask it: entries that this process acknowledges later would count as newer data
	}
	if r.disabled || r.checked[id] {
		return true
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return false
}

// member returns a member in the configuration of this node or of an asked node, or nil. The caller must hold r.mu.
func (r *rejoinCheck) member(id string) *topology.Member {
	if m := r.find(id); m != nil {
		return m
	}
	if m, known := r.others[id]; known {
		return &m
	}
	return nil
}

// check returns an error if Raft messages must not be sent to a node. If the node has not been asked yet, check asks
// it, and blocks until it has answered.
func (r *rejoinCheck) check(id string) error {
	r.mu.Lock()
	if r.disabled || r.checked[id] {
		r.mu.Unlock()
		return nil
	}
	done := r.asking[id]
	if done == nil {
		done = make(chan struct{})
		r.asking[id] = done
		go r.askBoth(id, done, r.addToRound())
	}
	r.mu.Unlock()
	<-done
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.checked[id] {
		return fmt.Errorf("%s: %w", id, errUnchecked)
	}
	return nil
}

// addToRound adds a question to the current round, or to a new round if all questions of the current one are finished.
// The caller must hold r.mu.
func (r *rejoinCheck) addToRound() *round {
	if r.first == nil || r.first.unanswered == 0 {
		r.first = &round{done: make(chan struct{})}
	}
	r.first.unanswered++
	return r.first
}

// awaitRound records that a question of the round is answered or has failed. It then blocks until all questions of the
// round are answered or have failed, or until roundWithin has passed.
func (r *rejoinCheck) awaitRound(first *round) {
	r.mu.Lock()
	if first.unanswered--; first.unanswered == 0 {
		close(first.done)
	}
	r.mu.Unlock()
	select {
	case <-first.done:
	case <-time.After(roundWithin):
	}
}

// askBoth asks a node both questions.
func (r *rejoinCheck) askBoth(id string, done chan struct{}, first *round) {
	r.mu.Lock()
	m := r.member(id)
	r.mu.Unlock()
	var others []topology.Member
	err := topology.ErrUnknown
	if m != nil {
		others, err = r.ask(*m, false)
	}
	r.awaitRound(first)
	if err == nil {
		_, err = r.ask(*m, true)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range others {
		r.others[o.ID] = o
	}
	if err == nil {
		r.checked[id] = true
	}
	delete(r.asking, id)
	close(done)
}

// remaining returns the ids of all members, in a view or known to asked nodes, that have not answered both questions.
func (r *rejoinCheck) remaining(v *topology.View) (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range slices.AppendSeq(slices.Clone(v.Members), maps.Values(r.others)) {
		if m.ID != v.Self && !r.disabled && !r.checked[m.ID] && !slices.Contains(ids, m.ID) {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// rejoiner asks all members the questions of rejoinCheck.
type rejoiner struct {
	check   *rejoinCheck
	self    *Announcement
	last    entryID // newest entry in the log when this process started
	view    *observer
	setting *heartbeatSetting
	peers   *peerClient
	failure *failure
	life    *lifetime
}

// run asks the members that have not answered, until the node is closed.
func (j *rejoiner) run() {
	for pause := firstRejoinPause; ; pause = min(2*pause, maxRejoinPause) {
		v := j.view.View()
		var asked sync.WaitGroup
		for _, id := range j.check.remaining(v) {
			asked.Go(func() { _ = j.check.check(id) }) // after an error, the node is asked again
		}
		asked.Wait()
		var retry <-chan time.Time
		if len(j.check.remaining(v)) > 0 {
			retry = time.After(pause)
		}
		select {
		case <-j.life.ended():
			return
		case <-j.check.wake:
			pause = firstRejoinPause
			if j.life.sleep(j.life.ctx, firstRejoinPause) != nil {
				return
			}
		case <-v.Changed:
		case <-retry:
		}
	}
}

// ask asks a node whether it has a record of newer data, and returns the members in the configuration of the node. If the
// node has such a record, this process exits. If record is true, the node is also asked to record the start of this
// process. If record is true and this process is about to exit, ask asks nothing and returns an error.
func (j *rejoiner) ask(m topology.Member, record bool) ([]topology.Member, error) {
	if record && j.failure.hasOccurred() {
		return nil, errUnchecked
	}
	ctx, cancel := context.WithTimeout(j.life.ctx, max(j.setting.heartbeat(), time.Second))
	defer cancel()
	a, err := j.peers.ask(ctx, m, Question{About: topicReturn, Node: j.self, Last: j.last, RecordStart: record})
	if err != nil && a.Stale == "" && a.Node != nil && a.Node.Boot == 0 {
		return nil, nil // the node runs a version that does not record starts
	}
	return a.Members, err
}

// Methods of raft.Transport and raft.WithPreVote. Each method first calls check for the node to which it sends.

func (r *rejoinCheck) AppendEntries(id raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if err := r.check(string(id)); err != nil {
		return err
	}
	return r.Transport.AppendEntries(id, to, args, resp)
}

func (r *rejoinCheck) AppendEntriesPipeline(id raft.ServerID, to raft.ServerAddress) (raft.AppendPipeline, error) {
	if err := r.check(string(id)); err != nil {
		return nil, err
	}
	return r.Transport.AppendEntriesPipeline(id, to)
}

func (r *rejoinCheck) RequestVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	if err := r.check(string(id)); err != nil {
		return err
	}
	return r.Transport.RequestVote(id, to, args, resp)
}

func (r *rejoinCheck) RequestPreVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if err := r.check(string(id)); err != nil {
		return err
	}
	return r.Transport.RequestPreVote(id, to, args, resp)
}

func (r *rejoinCheck) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	if err := r.check(string(id)); err != nil {
		return err
	}
	return r.Transport.InstallSnapshot(id, to, args, resp, data)
}

func (r *rejoinCheck) TimeoutNow(id raft.ServerID, to raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	if err := r.check(string(id)); err != nil {
		return err
	}
	return r.Transport.TimeoutNow(id, to, args, resp)
}

// Close closes the transport. Raft calls it during shutdown.
func (r *rejoinCheck) Close() error {
	if closing, ok := r.Transport.(raft.WithClose); ok {
		return closing.Close()
	}
	return nil
}
