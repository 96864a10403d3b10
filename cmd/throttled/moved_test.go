package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/cluster"
)

// with returns the arguments of a process with the value of one option replaced.
func (p *process) with(option, value string) []string {
	args := slices.Clone(p.args)
	args[slices.Index(args, option)+1] = value
	return args
}

// startMoved starts a process whose Raft address has changed. The process must exit, and its log must contain the
// address that it advertises and the one in the cluster's configuration.
func (p *process) startMoved(advertised string) {
	p.t.Helper()
	p.start()
	code, _ := p.waitExit(patience)
	log := p.log.String()
	for _, want := range []string{cluster.ErrMoved.Error(), "advertises " + advertised, "its address in the cluster is " + p.raft} {
		if !strings.Contains(log, want) {
			p.t.Errorf("the log does not contain %q", want)
		}
	}
	if code != exitError || strings.Contains(log, "starting election") {
		p.t.Errorf("the node exits with %d, want 1 and no election in its log:\n%s", code, log)
	}
}

// TestProcess_Moved restarts two nodes at addresses that differ from those in the cluster's configuration. The first
// node is in the bootstrap list, in which its address is changed as well. The second node has joined. Both nodes must
// exit. When started at its old address, each node must become a follower again.
func TestProcess_Moved(t *testing.T) {
	patient := []string{"--raft-heartbeat", "1000"} // makes elections on a busy machine rare
	all := newProcesses(t, []string{"n1", "n2", "n3"}, patient...)
	leader, others := leaderOf(t, all)
	joined := newJoining(t, "n4", leader, patient...)
	leader.askUntil("voters:4 ", "CL.CLUSTER", "STATUS")
	for _, p := range []*process{others[0], joined} {
		before, moved := p.args, freeAddr(t)
		p.kill()
		p.args = p.with("--raft-addr", moved)
		if i := slices.Index(before, "--bootstrap"); i >= 0 {
			p.args[i+1] = strings.ReplaceAll(before[i+1], p.id+"="+p.raft, p.id+"="+moved)
		}
		p.startMoved(moved)

		p.args = before
		p.start()
		p.askUntil("role:follower", "CL.CLUSTER", "STATUS")
		p.askUntil("leader:n", "CL.CLUSTER", "STATUS") // any node, since the leader may have changed on a busy machine
	}
}
