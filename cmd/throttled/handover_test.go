package main

import (
	"strings"
	"syscall"
	"testing"
)

// TestProcess_LastOfAll kills the followers and then stops the leader with SIGTERM. The last node of a
// cluster is in the same situation when all nodes are stopped together. The leader must exit with code 0
// and log why it has not handed over the leadership.
func TestProcess_LastOfAll(t *testing.T) {
	all := newProcesses(t, []string{"n1", "n2", "n3"}, "--raft-heartbeat", "2000") // the leader must not step down before it is stopped
	leader, others := leaderOf(t, all)
	leader.askUntil("[0 ", "CL.THROTTLE", "k", 0, 1, "1h")
	for _, p := range others {
		p.kill()
	}
	if err := leader.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	code, _ := leader.waitExit(patience)
	log := leader.log.String()
	if code != exitOK || !strings.Contains(log, "a majority of the nodes has stopped or does not respond") || strings.Contains(log, "charged") {
		t.Errorf("the leader exits with %d; want 0, and in the log the reason why it has not handed over, and no \"charged\":\n%s", code, log)
	}
}
