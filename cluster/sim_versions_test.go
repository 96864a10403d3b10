package cluster

import (
	"errors"
	"time"
)

// Steps of tests of replicated rules and users.

// needAllMembers checks that a proposal fails with an error while a member is down, and succeeds when the member is back.
// Then it crashes a member. propose also returns the number of the newest version.
func (s *sim) needAllMembers(want error, propose func(*process) (uint64, error)) {
	s.t.Helper()
	leader := s.leader()
	down := s.followers(leader)[0]
	down.crash(false)
	if newest, err := propose(leader); !errors.Is(err, want) || newest != 0 {
		s.t.Errorf("with a member down, the proposal returned the error %v, and the newest version is %d; want %v and 0", err, newest, want)
	}
	<-down.node.boot().started
	s.await("the member answers", 10*time.Second, func() bool {
		_, err := propose(s.leader())
		return err == nil
	})
	s.followers(s.leader())[0].crash(false)
}

// catchUp makes a leader write a snapshot, and starts a node that has missed entries. The node must get the snapshot.
func (s *sim) catchUp(leader *process, away *simNode) {
	s.t.Helper()
	if err := leader.Snapshot(); err != nil {
		s.t.Fatal(err)
	}
	s.grant(leader, "s")
	back := away.boot()
	s.converge()
	if back.fsm.restores.Load() == 0 {
		s.t.Error("the node did not get a snapshot")
	}
}

// crashAll crashes all nodes.
func (s *sim) crashAll() {
	for _, n := range s.list() {
		s.alive(n.id).crash(false)
	}
}
