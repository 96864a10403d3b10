package cluster

import (
	"fmt"
	"slices"
	"time"

	"github.com/throttledhq/throttled/topology"
)

// await waits until a condition holds. The test fails if the condition does not hold within the given time.
func (s *sim) await(what string, within time.Duration, is func() bool) {
	s.t.Helper()
	for end := time.Now().Add(within); !is(); pass(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("after %v, this condition does not hold: %s; states of the nodes: %s", within, what, s.describe())
		}
	}
}

func (s *sim) describe() (text string) {
	for _, n := range s.list() {
		l := s.alive(n.id)
		if l == nil {
			text += n.id + " is down; "
			continue
		}
		v := l.View()
		text += fmt.Sprintf("%s: term %d, leader %q, leading %v, %+v; ", n.id, v.Term, v.Leader, v.Leading, l.Fingerprint())
	}
	return text
}

// leader waits until a node makes decisions, and returns its process.
func (s *sim) leader() *process {
	s.t.Helper()
	var found *process
	s.await("a node leads", 20*time.Second, func() bool {
		found = s.leading()
		return found != nil
	})
	return found
}

// leading returns a node whose view shows it as the leader, or nil.
func (s *sim) leading() *process {
	for _, l := range s.processes() {
		if l.View().Leading {
			return l
		}
	}
	return nil
}

// followers returns all processes except the given one.
func (s *sim) followers(leader *process) []*process {
	return slices.DeleteFunc(s.processes(), func(l *process) bool { return l == leader })
}

// newLeader waits until a process other than the given one is the leader, and returns it.
func (s *sim) newLeader(before *process) (found *process) {
	s.t.Helper()
	s.await("another node leads", 10*time.Second, func() bool {
		for _, l := range s.followers(before) {
			if l.View().Leading {
				found = l
			}
		}
		return found != nil
	})
	return found
}

// members returns the members according to the leader.
func (s *sim) members() (all []*simNode) {
	leader := s.leader()
	for _, n := range s.list() {
		if leader.observer.find(n.id) != nil {
			all = append(all, n)
		}
	}
	return all
}

// converge heals all links, resumes and boots all members, and waits until all members have the same state.
func (s *sim) converge() {
	s.t.Helper()
	s.heal()
	for _, l := range s.processes() {
		l.resume()
	}
	for _, n := range s.list() {
		if s.alive(n.id) == nil && !n.gone {
			n.boot()
		}
	}
	members := s.members()
	s.await("all have the same state", 10*time.Second, func() bool {
		var first *topology.Fingerprint
		for _, n := range members {
			l := s.alive(n.id)
			if l == nil {
				return false
			}
			f := l.Fingerprint()
			if first == nil {
				first = &f
			}
			if f != *first {
				return false
			}
		}
		return s.leading() != nil
	})
}
