package main

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

// TestRecover_Refuses has lists of nodes that make no cluster. None of them changes what the directory holds.
func TestRecover_Refuses(t *testing.T) {
	dir := t.TempDir()
	p, _, _ := openNode(t, dir)
	startNode(t, p)
	release(t, p)
	_, before, _ := inspection(runRecover).with("--data-dir", dir)
	if !strings.Contains(before, "voter        "+alone+" at ") {
		t.Fatalf("shows:\n%s", before)
	}
	for _, tt := range []struct {
		nodes []string
		code  int
		want  string
	}{
		{[]string{"n 3=:x"}, exitUsage, "argument must be host:port"},
		{[]string{"n_3=a:1"}, exitUsage, "argument must be NAME=host:port, which n_3=a:1 is not"},
		{[]string{"n3=a:x"}, exitUsage, "argument must be host:port, which a:x is not"},
		{[]string{alone + "=:6382"}, exitUsage, "nodes are reached"},
		{[]string{alone + "=a:1", "n2=a:1"}, exitUsage, "twice"},
		{[]string{alone + "=a:1", alone + "=a:2"}, exitUsage, "twice"},
		{[]string{"n1=a:1", "n2=b:1"}, exitError, "recover " + dir + " of " + alone + ": " + errUnnamed.Error()},
	} {
		code, out, errs := inspection(runRecover).with(append([]string{"--data-dir", dir}, tt.nodes...)...)
		if code != tt.code || out != "" || !strings.Contains(errs, tt.want) {
			t.Errorf("%q exits with %d and prints %q, %q; want %d and %q", tt.nodes, code, out, errs, tt.code, tt.want)
		}
		if _, after, _ := inspection(runRecover).with("--data-dir", dir); after != before {
			t.Errorf("%q has changed what was\n%sto\n%s", tt.nodes, before, after)
		}
	}
	if code, _, errs := inspection(runRecover).with("--data-dir", t.TempDir(), "n1=a:1"); code != exitError || !strings.Contains(errs, "no such file") {
		t.Errorf("an empty directory: exits with %d and prints %q", code, errs)
	}
}

const recovered = 20 // keys

// TestProcess_Recover loses two of three nodes for good. The one that is left becomes a cluster by itself, limits what
// had been charged, and another node joins it.
func TestProcess_Recover(t *testing.T) {
	all := newProcesses(t, []string{"n1", "n2", "n3"}, "--raft-heartbeat", "1000") // no busy machine makes another lead
	leader, others := leaderOf(t, all)
	for i := range recovered {
		leader.ask("[0 1 0 ", "CL.THROTTLE", fmt.Sprint("k", i), 0, 1, "1h")
	}
	survivor := others[0]
	survivor.ask(fmt.Sprintf("keys:%d ", recovered), "CL.CLUSTER", "HASH")
	for _, p := range all {
		p.kill()
	}
	code, out, errs := inspection(runRecover).with("--data-dir", survivor.dir, survivor.id+"="+survivor.raft)
	if code != exitOK || !strings.Contains(out, survivor.id+" at "+survivor.raft) || strings.Count(out, "voter ") != 1 {
		t.Fatalf("recover exits with %d and prints %q, %s", code, out, errs)
	}

	survivor.start()
	survivor.ask("role:leader", "CL.CLUSTER", "STATUS")
	for i := range recovered {
		survivor.ask("[1 1 0 ", "CL.THROTTLE", fmt.Sprint("k", i), 0, 1, "1h")
	}
	survivor.ask("nodes:1 ", "CL.CLUSTER", "STATUS")
	joined := newJoining(t, "n4", survivor)
	survivor.ask("voters:2 ", "CL.CLUSTER", "STATUS")
	joined.ask("role:follower", "CL.CLUSTER", "STATUS")
	joined.ask(fmt.Sprintf("keys:%d ", recovered), "CL.CLUSTER", "HASH")
	joined.ask("[1 1 0 ", "CL.THROTTLE", "k0", 0, 1, "1h")
}

// newJoining is a node that joins a cluster through one that is there, and is started.
func newJoining(t *testing.T, id string, through *process, args ...string) *process {
	t.Helper()
	p := &process{t: t, id: id, addr: freeAddr(t), raft: freeAddr(t), dir: t.TempDir()}
	_, port, _ := net.SplitHostPort(p.addr)
	p.args = append([]string{"--port", port, "--cluster-port", "0", "--sentinel-port", "0", "--data-dir", p.dir, "--cluster-id", "test", "--node-id", id,
		"--raft-addr", p.raft, "--raft-insecure", "yes", "--join", through.raft}, args...)
	p.start()
	return p
}
