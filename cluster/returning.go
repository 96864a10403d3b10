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

	"github.com/throttledhq/throttled/cluster/transport"
	"github.com/throttledhq/throttled/topology"
)

// errUnchecked is why nothing of Raft passes between two nodes.
var errUnchecked = errors.New("the node has not yet said whether it remembers newer data of this one")

const (
	firstPause = 20 * time.Millisecond // between two questions to a node that does not answer
	maxPause   = time.Second
	// othersTake is how long the answers of other nodes are awaited before a node is asked to note the start.
	othersTake = 250 * time.Millisecond
)

// returning stands between Raft and the other nodes in a process that begins with data. Before anything of Raft passes
// between this node and another one, that has been asked whether it remembers newer data of this node: a vote or an
// acknowledgment on the strength of an old copy would break what the node has promised. Each node is asked
// once, as nothing that it learns later can be newer: first whether it remembers newer data, and then, unless another
// node does, to note the start. A copy that any of them turns away is noted by none, as long as they answer in time.
//
// Nobody is waited for: a node that is not there neither votes nor leads.
type returning struct {
	Transport
	ask  func(m topology.Member, note bool) (others []topology.Member, err error) // nil: the node remembers nothing newer
	find func(id string) *topology.Member

	mu      sync.Mutex
	open    bool // the node has begun without data: there is nothing to ask
	checked map[string]bool
	others  map[string]topology.Member // that nodes which were asked know of
	asking  map[string]chan struct{}   // closed when both questions have been answered
	first   *round                     // of first questions; nil before there were any
	wake    chan struct{}              // has an element when a node that was not asked yet is there
}

// round is a set of first questions that are asked concurrently.
type round struct {
	open int           // questions without an answer
	done chan struct{} // closed when there are none
}

// newReturning returns the transport of a node behind such checks.
func (n *Node) newReturning() *returning {
	return &returning{
		Transport: n.config.Transport, ask: n.askReturn, find: n.find, open: n.config.Peers == nil,
		checked: map[string]bool{}, others: map[string]topology.Member{}, asking: map[string]chan struct{}{}, wake: make(chan struct{}, 1),
	}
}

// skip has everything pass from now on.
func (r *returning) skip() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = true
}

// allows reports whether a node may open streams of Raft; if not it is asked soon. One that neither this node nor those
// which it has asked know of has joined since, and can remember nothing newer.
func (r *returning) allows(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.checked) > 0 && r.member(id) == nil {
		r.checked[id] = true // it may not be asked later: what this process has acknowledged by then would count
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

// member returns a node that this node, or one that was asked, knows of; or nil. r.mu is held.
func (r *returning) member(id string) *topology.Member {
	if m := r.find(id); m != nil {
		return m
	}
	if m, known := r.others[id]; known {
		return &m
	}
	return nil
}

// check asks a node, unless that has been done, and returns why nothing of Raft may pass.
func (r *returning) check(id string) error {
	r.mu.Lock()
	if r.open || r.checked[id] {
		r.mu.Unlock()
		return nil
	}
	done := r.asking[id]
	if done == nil {
		done = make(chan struct{})
		r.asking[id] = done
		go r.put(id, done, r.join())
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

// join adds a question to the present round, or begins another one. r.mu is held.
func (r *returning) join() *round {
	if r.first == nil || r.first.open == 0 {
		r.first = &round{done: make(chan struct{})}
	}
	r.first.open++
	return r.first
}

// await notes an answer of the round, and waits for the others for a while.
func (r *returning) await(first *round) {
	r.mu.Lock()
	if first.open--; first.open == 0 {
		close(first.done)
	}
	r.mu.Unlock()
	select {
	case <-first.done:
	case <-time.After(othersTake):
	}
}

// put asks a node.
func (r *returning) put(id string, done chan struct{}, first *round) {
	r.mu.Lock()
	m := r.member(id)
	r.mu.Unlock()
	var others []topology.Member
	err := topology.ErrUnknown
	if m != nil {
		others, err = r.ask(*m, false)
	}
	r.await(first)
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

// left returns those of some nodes, and of those that they know of, that are still to be asked.
func (r *returning) left(members []topology.Member, self string) (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range slices.AppendSeq(slices.Clone(members), maps.Values(r.others)) {
		if m.ID != self && !r.open && !r.checked[m.ID] && !slices.Contains(ids, m.ID) {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// askAll asks all members, until each has answered or the node ends.
func (n *Node) askAll() {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		v := n.View()
		var asked sync.WaitGroup
		for _, id := range n.returning.left(v.Members, v.Self) {
			asked.Go(func() { _ = n.returning.check(id) }) // it is asked again
		}
		asked.Wait()
		var retry <-chan time.Time
		if len(n.returning.left(v.Members, v.Self)) > 0 {
			retry = time.After(pause)
		}
		select {
		case <-n.ended:
			return
		case <-n.returning.wake:
			pause = firstPause
			if n.wait(context.Background(), firstPause) != nil {
				return
			}
		case <-v.Changed:
		case <-retry:
		}
	}
}

// askReturn asks a node whether it remembers newer data of this one, which stops this node if so, and which nodes it
// knows of. If note is true it notes the start of this node, unless another node has stopped it.
func (n *Node) askReturn(m topology.Member, note bool) ([]topology.Member, error) {
	if note && n.hasFailed() {
		return nil, errUnchecked
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(n.heartbeat(), time.Second))
	defer cancel()
	go func() {
		select {
		case <-n.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	a, err := n.ask(ctx, m, Question{About: aboutReturn, Node: &n.config.Self, Last: n.began, Note: note})
	if err != nil && a.Stale == "" && a.Node != nil && a.Node.Boot == 0 {
		return nil, nil // of a version that remembers nothing
	}
	return a.Members, err
}

// stop ends the process.
func (n *Node) stop(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fatal(err)
}

// isFenced returns why this node can never again take part with the one that has given an error: that has been
// recovered, and this node has not been recovered with it.
func isFenced(err error) error {
	var other *transport.RecoveryError
	if errors.As(err, &other) && other.Theirs.Number() >= other.Ours.Number() {
		return fmt.Errorf("no node leads that was recovered with this one, or not recovered as this one: %w", other)
	}
	return nil
}

// The messages of Raft.

func (r *returning) AppendEntries(id raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if err := r.check(string(id)); err != nil {
		return err
	}
	return r.Transport.AppendEntries(id, to, args, resp)
}

func (r *returning) AppendEntriesPipeline(id raft.ServerID, to raft.ServerAddress) (raft.AppendPipeline, error) {
	if err := r.check(string(id)); err != nil {
		return nil, err
	}
	return r.Transport.AppendEntriesPipeline(id, to)
}

func (r *returning) RequestVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	if err := r.check(string(id)); err != nil {
		return err
	}
	return r.Transport.RequestVote(id, to, args, resp)
}

func (r *returning) RequestPreVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if err := r.check(string(id)); err != nil {
		return err
	}
	return r.Transport.RequestPreVote(id, to, args, resp)
}

func (r *returning) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	if err := r.check(string(id)); err != nil {
		return err
	}
	return r.Transport.InstallSnapshot(id, to, args, resp, data)
}

func (r *returning) TimeoutNow(id raft.ServerID, to raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	if err := r.check(string(id)); err != nil {
		return err
	}
	return r.Transport.TimeoutNow(id, to, args, resp)
}

// Close closes what can be closed, as Raft does at its end.
func (r *returning) Close() error {
	if closing, ok := r.Transport.(raft.WithClose); ok {
		return closing.Close()
	}
	return nil
}
