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

// errUnchecked is the error of Raft messages between this node and another one that has not answered yet.
var errUnchecked = errors.New("the node has not answered yet whether it remembers newer data")

const (
	firstRejoinPause = 20 * time.Millisecond // between two questions to a node that does not answer
	maxRejoinPause   = time.Second
	// roundWithin is how long the answers of other nodes are awaited before a node is asked to record the start.
	roundWithin = 250 * time.Millisecond
)

// rejoinCheck is the transport of Raft in a process that starts with data. Before any Raft message passes between this
// node and another one, the other node is asked whether it remembers newer data of this node: a vote or an
// acknowledgment based on an old copy would violate what the node has acknowledged before. Each node is asked once, as
// it cannot learn of newer data later. The first question is whether it remembers newer data. The second one, unless
// another node does, is to record the start. If any node rejects a copy, no node records it, as long as they answer in
// time.
//
// Nodes that do not answer block nothing else: they neither vote nor lead.
type rejoinCheck struct {
	Transport
	// ask asks a node, and returns the members that it knows. It returns nil if the node remembers no newer data.
	ask  func(m topology.Member, record bool) (others []topology.Member, err error)
	find func(id string) *topology.Member

	mu      sync.Mutex
	open    bool // all messages pass: the node has started without data
	checked map[string]bool
	others  map[string]topology.Member // members that the asked nodes know
	asking  map[string]chan struct{}   // closed when both questions are answered
	first   *round                     // the first questions; nil before there are any
	wake    chan struct{}              // receives an element when a node is available that was not asked yet
}

// round is a set of first questions that are asked concurrently.
type round struct {
	open int           // questions without an answer
	done chan struct{} // closed when all are answered
}

func newRejoinCheck(t Transport, open bool, find func(id string) *topology.Member) *rejoinCheck {
	return &rejoinCheck{
		Transport: t, find: find, open: open,
		checked: map[string]bool{}, others: map[string]topology.Member{}, asking: map[string]chan struct{}{}, wake: make(chan struct{}, 1),
	}
}

// skip makes all messages pass.
func (r *rejoinCheck) skip() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = true
}

// allows reports whether a node may open Raft streams. If not, the node is asked soon. A node that neither this node nor
// any asked node knows has joined since, and cannot remember newer data.
func (r *rejoinCheck) allows(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.checked) > 0 && r.member(id) == nil {
		r.checked[id] = true // it must not be asked later, when it has acknowledgments of this process
	}
	if r.open || r.checked[id] {
		return true
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return false
}

// member returns a member that this node or an asked node knows, or nil. r.mu is held.
func (r *rejoinCheck) member(id string) *topology.Member {
	if m := r.find(id); m != nil {
		return m
	}
	if m, known := r.others[id]; known {
		return &m
	}
	return nil
}

// check asks a node unless it has answered, and returns an error if Raft messages must not pass.
func (r *rejoinCheck) check(id string) error {
	r.mu.Lock()
	if r.open || r.checked[id] {
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

// addToRound adds a question to the present round, or to a new one if all of its questions are answered. r.mu is held.
func (r *rejoinCheck) addToRound() *round {
	if r.first == nil || r.first.open == 0 {
		r.first = &round{done: make(chan struct{})}
	}
	r.first.open++
	return r.first
}

// awaitRound records an answer of the round, and blocks until the others have arrived or roundWithin has passed.
func (r *rejoinCheck) awaitRound(first *round) {
	r.mu.Lock()
	if first.open--; first.open == 0 {
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

// remaining returns the members of a view, and those that the asked nodes know, that have not answered.
func (r *rejoinCheck) remaining(v *topology.View) (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range slices.AppendSeq(slices.Clone(v.Members), maps.Values(r.others)) {
		if m.ID != v.Self && !r.open && !r.checked[m.ID] && !slices.Contains(ids, m.ID) {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// rejoiner asks all members whether they remember newer data of this node.
type rejoiner struct {
	check   *rejoinCheck
	self    *Announcement
	last    entryID // newest entry of the log at the start of this process
	view    *observer
	setting *heartbeatSetting
	peers   *peerClient
	failure *failure
	life    *lifetime
}

// run asks all members until each has answered or the node is closed.
func (j *rejoiner) run() {
	for pause := firstRejoinPause; ; pause = min(2*pause, maxRejoinPause) {
		v := j.view.View()
		var asked sync.WaitGroup
		for _, id := range j.check.remaining(v) {
			asked.Go(func() { _ = j.check.check(id) }) // on an error it is asked again
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

// ask asks a node whether it remembers newer data of this one, and for the members that it knows. If it does, the
// process exits. If record is true, the node records the start of this node, unless another node has rejected it.
func (j *rejoiner) ask(m topology.Member, record bool) ([]topology.Member, error) {
	if record && j.failure.hasOccurred() {
		return nil, errUnchecked
	}
	ctx, cancel := context.WithTimeout(j.life.ctx, max(j.setting.heartbeat(), time.Second))
	defer cancel()
	a, err := j.peers.ask(ctx, m, Question{About: topicReturn, Node: j.self, Last: j.last, Note: record})
	if err != nil && a.Stale == "" && a.Node != nil && a.Node.Boot == 0 {
		return nil, nil // a version that does not record starts
	}
	return a.Members, err
}

// The requests of Raft.

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

// Close closes the transport. Raft calls it at its shutdown.
func (r *rejoinCheck) Close() error {
	if closing, ok := r.Transport.(raft.WithClose); ok {
		return closing.Close()
	}
	return nil
}
