package main

import (
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/throttledhq/throttled/cluster/raftstore"
)

// copyDir copies the data directory of a running node and returns the path of the copy. The process is paused
// meanwhile, so that the copy is as consistent as a disk snapshot.
func (p *process) copyDir() string {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		p.t.Fatal(err)
	}
	to := p.t.TempDir()
	err := os.CopyFS(to, os.DirFS(p.dir))
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		p.t.Fatal(err)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return to
}

// putBack replaces the data directory of a stopped node with a copy made earlier.
func (p *process) putBack(from string) {
	p.t.Helper()
	if err := os.RemoveAll(p.dir); err != nil {
		p.t.Fatal(err)
	}
	if err := os.CopyFS(p.dir, os.DirFS(from)); err != nil {
		p.t.Fatal(err)
	}
}

// startInVain starts a process while its Raft address is in use. The process must exit with an error.
func (p *process) startInVain() {
	p.t.Helper()
	ln, err := net.Listen("tcp", p.raft)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	p.start()
	if code, _ := p.waitExit(patience); code != exitError {
		p.t.Errorf("a node whose address is in use exits with %d, want 1:\n%s", code, p.log)
	}
}

// TestProcess_OldCopy restores an old copy of a node's data directory, which lacks charges that the node has
// acknowledged. The cluster must reject the node. A second start of the node must fail too, although the only other
// running node does not have these charges either. After the leader is restarted, the charges must still be in effect.
func TestProcess_OldCopy(t *testing.T) {
	all := newProcesses(t, []string{"n1", "n2", "n3"}, "--raft-heartbeat", "2000") // avoids elections on a busy machine
	leader, others := leaderOf(t, all)
	stale, lags := others[0], others[1]
	leader.askUntil("[0 ", "CL.THROTTLE", "first", 0, 1, "1h")
	stale.askUntil("keys:1 ", "CL.CLUSTER", "HASH")
	copied := stale.copyDir()
	lags.kill()
	for i := range 20 { // stored by the nodes leader and stale, but not by lags, which is stopped
		leader.askUntil("[0 1 0 ", "CL.THROTTLE", fmt.Sprint("k", i), 0, 1, "1h")
	}
	stale.askUntil("keys:21 ", "CL.CLUSTER", "HASH")
	stale.kill()
	stale.putBack(copied)
	stale.start()
	if code, _ := stale.waitExit(patience); code != exitFailed || !strings.Contains(stale.log.String(), raftstore.ErrStale.Error()) {
		t.Errorf("a node with an old copy exits with %d, want 75 and ErrStale in its log:\n%s", code, stale.log)
	}
	leader.kill()
	lags.start()
	stale.start() // if lags accepted stale, the two nodes would be a majority
	if code, _ := stale.waitExit(patience); code != exitError || !strings.Contains(stale.log.String(), "had acknowledged entry") {
		t.Errorf("the second start with an old copy exits with %d, want 1 and the acknowledged entry in the log:\n%s", code, stale.log)
	}
	leader.start()
	for i := range 20 {
		lags.askUntil("[1 1 0 ", "CL.THROTTLE", fmt.Sprint("k", i), 0, 1, "1h")
	}
}

// TestProcess_StaleBoot copies the data directory of a stopped node, starts the node once more, and then restores the
// copy. A failed start increments the boot number in the restored directory, so that the next start has a higher boot
// number than the other nodes have seen. The node must be rejected nevertheless. The other nodes are restarted
// first, so the check can only use records that they have stored on disk.
func TestProcess_StaleBoot(t *testing.T) {
	all := newProcesses(t, []string{"n1", "n2", "n3"}, "--raft-heartbeat", "2000")
	leader, others := leaderOf(t, all)
	stale := others[0]
	stale.askUntil("[0 ", "CL.THROTTLE", "k", 0, 1, "1h")
	stale.kill()
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(stale.dir)); err != nil {
		t.Fatal(err)
	}
	stale.args = append(stale.args, "--announce-host", "localhost")
	stale.start()
	leader.askUntil("host=localhost", "CL.CLUSTER", "NODES") // this start and its boot number have been announced
	for _, p := range all {
		p.kill()
	}
	stale.putBack(copied)
	stale.startInVain()
	for _, p := range all {
		p.start()
	}
	if code, _ := stale.waitExit(patience); code != exitFailed || !strings.Contains(stale.log.String(), "its data lacks that start") {
		t.Errorf("a node with an old copy exits with %d, want 75 and the missing start in its log:\n%s", code, stale.log)
	}
	others[1].askUntil("[1 ", "CL.THROTTLE", "k", 0, 1, "1h")
}
