package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// without returns the arguments of a process with one option and its value removed.
func (p *process) without(option string) []string {
	at := slices.Index(p.args, option)
	return slices.Delete(slices.Clone(p.args), at, at+2)
}

// TestProcess_Restart restarts nodes without --bootstrap and --join, which are required only at the first start. A node
// without data must fail to start if neither option is given.
func TestProcess_Restart(t *testing.T) {
	all := newProcesses(t, []string{"n1", "n2", "n3"}, "--raft-heartbeat", "1000")
	leader, _ := leaderOf(t, all)
	leader.askUntil("[0 3 2 ", "CL.THROTTLE", "k", "2", "1", "86400")
	joined := newJoining(t, "n4", leader, "--raft-heartbeat", "1000")
	leader.askUntil("voters:4 ", "CL.CLUSTER", "STATUS")
	for _, p := range all {
		p.kill()
		p.args = p.without("--bootstrap")
	}
	joined.kill()
	joined.args = joined.without("--join")
	all = append(all, joined)
	for _, p := range all {
		p.start()
	}
	_, others := leaderOf(t, all)
	others[0].askUntil("[0 3 1 ", "CL.THROTTLE", "k", "2", "1", "86400")
	joined.askUntil("leader:n", "CL.CLUSTER", "STATUS")

	empty := all[0]
	empty.kill()
	dir := t.TempDir()
	empty.args = append(empty.with("--data-dir", "data"), "--dir", dir)
	empty.start()
	want := "data-dir " + filepath.Join(dir, "data") + " has no data of a cluster"
	if code, _ := empty.waitExit(patience); code != exitError || !strings.Contains(empty.log.String(), want) {
		t.Errorf("without data, bootstrap and join the node exits with %d, want 1 and %q in its log:\n%s", code, want, empty.log)
	}
}
