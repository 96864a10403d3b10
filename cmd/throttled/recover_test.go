package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/cluster/raftstore"
	"github.com/throttledhq/throttled/cluster/transport"
	"github.com/throttledhq/throttled/topology"
)

// usedDirectory returns the data directory of a standalone node that was the leader and was closed.
func usedDirectory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	p, _, _ := openNode(t, dir)
	startNode(t, p)
	release(t, p)
	return dir
}

// TestRecover_Refuses checks that invalid lists of nodes are refused and leave the directory unchanged.
func TestRecover_Refuses(t *testing.T) {
	dir := usedDirectory(t)
	_, before, _ := words("recover").with("--data-dir", dir)
	if !strings.Contains(before, "voter        "+alone+" at ") {
		t.Fatalf("recover without nodes does not print the voter of the directory:\n%s", before)
	}
	for _, tt := range []struct {
		nodes []string
		code  int
		want  string
	}{
		{[]string{"n 3=:x"}, exitUsage, "argument must be NAME=host:port, not n"},
		{[]string{"n3=:x"}, exitUsage, "argument must be host:port, not :x"},
		{[]string{"n_3=a:1"}, exitUsage, "argument must be NAME=host:port, not n_3=a:1"},
		{[]string{"n3=a:x"}, exitUsage, "argument must be host:port, not a:x"},
		{[]string{alone + "=:6382"}, exitUsage, "other nodes can reach"},
		{[]string{alone + "=a:1", "n2=a:1"}, exitUsage, "twice"},
		{[]string{alone + "=a:1", alone + "=a:2"}, exitUsage, "twice"},
		{[]string{"n1=a:1", "n2=b:1"}, exitError, "recover " + dir + " of " + alone + ": " + errUnnamed.Error()},
	} {
		code, out, errs := words("recover").with(append([]string{"--data-dir", dir}, tt.nodes...)...)
		if code != tt.code || code == exitUsage && out != "" || !strings.Contains(errs, tt.want) {
			t.Errorf("recover %q exits with %d, stdout %q, stderr %q; want %d, and %q in stderr", tt.nodes, code, out, errs, tt.code, tt.want)
		}
		if _, after, _ := words("recover").with("--data-dir", dir); after != before {
			t.Errorf("recover %q changed the directory from\n%sto\n%s", tt.nodes, before, after)
		}
	}
	if code, _, errs := words("recover").with("--data-dir", t.TempDir(), "n1=a:1"); code != exitError || !strings.Contains(errs, raftstore.ErrNoNode.Error()) {
		t.Errorf("recover of an empty directory exits with %d, stderr %q; want 1 and ErrNoNode", code, errs)
	}
	if code, _, errs := words("recover").with("--data-dir", filepath.Join(t.TempDir(), "none")); code != exitError || !strings.Contains(errs, "no such file") {
		t.Errorf("recover of a missing directory exits with %d, stderr %q; want 1 and \"no such file\"", code, errs)
	}
	if code, _, errs := words("recover").with("n1=a:1"); code != exitUsage || !strings.Contains(errs, errNoDataDir.Error()) {
		t.Errorf("recover without --data-dir exits with %d, stderr %q; want 2 and errNoDataDir", code, errs)
	}
}

const recovered = 20 // number of keys that TestProcess_Recover charges, without the one that is leased

// TestProcess_Recover stops all three nodes of a cluster and recovers it with only one of them. The new cluster must
// have the earlier charges, also those of a lease, and a new node must be able to join it. The two other nodes are then
// restarted with their old data. The new cluster must refuse their streams.
func TestProcess_Recover(t *testing.T) {
	all := newProcesses(t, []string{"n1", "n2", "n3"}, "--raft-heartbeat", "1000") // avoids elections on a busy machine
	leader, others := leaderOf(t, all)
	for i := range recovered {
		leader.askUntil("[0 1 0 ", "CL.THROTTLE", fmt.Sprint("k", i), 0, 1, "1h")
	}
	leader.askUntil("[5 1000 ", "CL.LEASE", 5, 1000, "THROTTLE", "leased", 9, 1, "1h")
	survivor := others[0]
	survivor.askUntil(fmt.Sprintf("keys:%d ", recovered+1), "CL.CLUSTER", "HASH")
	leader.kill()
	survivor.kill()
	arguments := []string{"--yes", "--data-dir", survivor.dir, survivor.id + "=" + survivor.raft}
	code, out, errs := words("recover").with(arguments...) // while a node is running
	if code != exitError || !strings.Contains(errs, others[1].id+" at "+others[1].raft+": "+errAnswering.Error()) || strings.Contains(out, "Recovered") {
		t.Fatalf("recover exits with %d, stdout %q, although a node is running; want 1 and errAnswering; stderr: %s", code, out, errs)
	}
	others[1].kill()
	code, out, errs = words("recover").with(arguments...)
	_, out, _ = strings.Cut(out, "Recovered:")
	if code != exitOK || !strings.Contains(out, survivor.id+" at "+survivor.raft) || strings.Count(out, "voter ") != 1 || !strings.Contains(out, "remove their data directories") {
		t.Fatalf("recover exits with %d and prints after \"Recovered:\" %q; want 0 and the survivor as the only voter; stderr: %s", code, out, errs)
	}

	survivor.start()
	survivor.askUntil("role:leader", "CL.CLUSTER", "STATUS")
	for i := range recovered {
		survivor.askUntil("[1 1 0 ", "CL.THROTTLE", fmt.Sprint("k", i), 0, 1, "1h")
	}
	survivor.askUntil("[0 10 5 ", "CL.THROTTLE", "leased", 9, 1, "1h", 0) // the units of the lease stay charged
	survivor.askUntil("nodes:1 ", "CL.CLUSTER", "STATUS")
	joined := newJoining(t, "n4", survivor)
	survivor.askUntil("voters:2 ", "CL.CLUSTER", "STATUS")
	joined.askUntil("role:follower", "CL.CLUSTER", "STATUS")
	joined.askUntil(fmt.Sprintf("keys:%d ", recovered+1), "CL.CLUSTER", "HASH")
	joined.askUntil("[1 1 0 ", "CL.THROTTLE", "k0", 0, 1, "1h")
	joined.kill()
	joined.start() // with the recovery id that it has stored
	joined.askUntil("[1 1 0 ", "CL.THROTTLE", "k0", 0, 1, "1h")

	old := others[1] // it cannot be elected alone, and exits when the new cluster refuses its streams
	old.start()
	if code, _ := old.waitExit(patience); code != exitFailed || !strings.Contains(old.log.String(), transport.ErrOtherRecovery.Error()) {
		t.Errorf("a lost node that is restarted exits with %d, want 75 and ErrOtherRecovery in its log:\n%s", code, old.log)
	}
	leader.start() // these two nodes are a majority of the old cluster, which is fenced off
	old.start()
	old.askUntil("voters:3 ", "CL.CLUSTER", "STATUS")
	again, _ := leaderOf(t, []*process{leader, old})
	again.askUntil("[0 1 0 ", "CL.THROTTLE", "old", 0, 1, "1h")
	survivor.askUntil("voters:2 ", "CL.CLUSTER", "STATUS")
	survivor.askUntil("[0 1 0 ", "CL.THROTTLE", "old", 0, 1, "1h") // the charge in the old cluster has no effect in the new one
	joined.askUntil("[1 1 0 ", "CL.THROTTLE", "old", 0, 1, "1h")
	survivor.waitLog(transport.ErrOtherRecovery.Error()) // the streams of the old nodes are refused
}

// TestRecover_Asks checks that recover prints its plan, and executes it only after confirmation.
func TestRecover_Asks(t *testing.T) {
	dir := usedDirectory(t)
	for _, tt := range []struct {
		name   string
		args   []string
		answer *string // nil if there is no terminal
		code   int
		want   string
	}{
		{"no terminal", nil, nil, exitError, errNoTerminal.Error()},
		{"no", nil, ptr("no\n"), exitError, errDeclined.Error()},
		{"end of input", nil, ptr(""), exitError, errDeclined.Error()},
		{"y", nil, ptr("y\n"), exitError, errDeclined.Error()},
		{"yes", nil, ptr("yes\n"), exitOK, "Recovered:"},
		{"again, without a question", []string{"--yes"}, nil, exitOK, "Recovered:"},
		{"with --reset-term", []string{"--yes", "--reset-term"}, nil, exitOK, "the vote in it will be discarded"},
	} {
		before, err := raftstore.Inspect(dir)
		if err != nil {
			t.Fatal(err)
		}
		var out, errs strings.Builder
		r := recovery{}
		if tt.answer != nil {
			r.in = strings.NewReader(*tt.answer)
		}
		code := r.command().execute(t.Context(), append(tt.args, "--data-dir", dir, alone+"=127.0.0.1:1"), &out, &errs)
		if text := out.String() + errs.String(); code != tt.code || !strings.Contains(text, tt.want) || !strings.Contains(text, alone+" at 127.0.0.1:1") {
			t.Errorf("%s: recover exits with %d; want the code of the case, and in the output the text of the case and the address of the node:\n%s", tt.name, code, text)
		}
		after, err := raftstore.Inspect(dir)
		if err != nil {
			t.Fatal(err)
		}
		next := before.Identity.NextRecovery([]topology.Member{{ID: alone, Raft: "127.0.0.1:1"}})
		if !strings.Contains(out.String(), string(next)) {
			t.Errorf("%s: the new recovery id %s is not in the output:\n%s", tt.name, next, out.String())
		}
		if code != exitOK {
			next = before.Identity.Recovery
		}
		if after.Identity.Recovery != next {
			t.Errorf("%s: the recovery id of the directory is %q, want %q", tt.name, after.Identity.Recovery, next)
		}
	}
}

// command returns a recover command with the input of r.
func (r *recovery) command() node {
	c := *find(commands(), "recover")
	c.bind = r.bind
	return node{&c, c.name}
}

func ptr(s string) *string { return &s }

// TestRecover_Gone checks that recover ignores a listener at the address of a node in --gone.
func TestRecover_Gone(t *testing.T) {
	dir, addr := t.TempDir(), freeAddr(t)
	p, _, _ := openNode(t, dir)
	startNode(t, p)
	release(t, p)
	both := []string{"--yes", "--data-dir", dir, alone + "=127.0.0.1:1", "n2=" + addr}
	if code, out, errs := words("recover").with(both...); code != exitOK {
		t.Fatalf("recover without a listener exits with %d, want 0: %s%s", code, out, errs)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	code, _, errs := words("recover").with(both...)
	if code != exitError || !strings.Contains(errs, "n2 at "+ln.Addr().String()+": "+errAnswering.Error()) {
		t.Errorf("recover with a listener at the address of n2 exits with %d, want 1 and errAnswering: %s", code, errs)
	}
	code, _, errs = words("recover").with(append([]string{"--gone", "n2,n3"}, both...)...)
	if want := `"n3": ` + errUnknown.Error() + "; the nodes are " + alone + ", n2"; code != exitError || !strings.Contains(errs, want) {
		t.Errorf("recover with an unknown node in --gone exits with %d, want 1 and the known nodes: %s", code, errs)
	}
	code, out, errs := words("recover").with(append([]string{"--gone", " n2 "}, both...)...)
	if code != exitOK || !strings.Contains(out, "WARNING") {
		t.Errorf("recover with n2 in --gone exits with %d, want 0 and a warning: %s%s", code, out, errs)
	}
}

// TestRecover_Probes checks that recover probes new nodes and the node that owns the directory, and probes them again
// after the confirmation. The recovery must be refused if it is interrupted or if an address cannot be resolved.
func TestRecover_Probes(t *testing.T) {
	dir := usedDirectory(t)
	before, _, _ := words("recover").with("--data-dir", dir)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	self, later := alone+"=127.0.0.1:1", freeAddr(t)
	for _, tt := range []struct {
		name  string
		ctx   context.Context
		nodes []string
		want  error
	}{
		{"a new node", t.Context(), []string{self, "n2=" + ln.Addr().String()}, errAnswering},
		{"the node itself", t.Context(), []string{alone + "=" + ln.Addr().String()}, errAnswering},
		{"address cannot be resolved", t.Context(), []string{self, "n2=node.invalid:1"}, errUnresolved},
		{"interrupted", interrupted, []string{"--yes", self, "n2=127.0.0.1:2"}, errInterrupted},
		{"a node that starts during the prompt", t.Context(), []string{self, "n2=" + later}, errAnswering},
	} {
		var out, errs strings.Builder
		r := recovery{in: confirmAfterListen{t, later}}
		code := r.command().execute(tt.ctx, append([]string{"--data-dir", dir}, tt.nodes...), &out, &errs)
		if code != exitError || !strings.Contains(errs.String(), tt.want.Error()) {
			t.Errorf("%s: recover exits with %d, want 1 and the error of the case; output:\n%s%s", tt.name, code, &out, &errs)
		}
	}
	if after, _, _ := words("recover").with("--data-dir", dir); after != before {
		t.Errorf("the directory has changed from\n%v\nto\n%v", before, after)
	}
}

// confirmAfterListen is a standard input for recover. It starts a listener at addr, like a node that starts during the
// prompt, and then answers yes.
type confirmAfterListen struct {
	t    *testing.T
	addr string
}

func (c confirmAfterListen) Read(b []byte) (int, error) {
	ln, err := net.Listen("tcp", c.addr)
	if err != nil {
		return 0, err
	}
	c.t.Cleanup(func() { _ = ln.Close() })
	return copy(b, "yes\n"), nil
}

// TestProcess_ResetTerm checks that a node whose term is too high for another election is repaired by --reset-term.
func TestProcess_ResetTerm(t *testing.T) {
	p := newProcesses(t, []string{"n1"})[0]
	p.askUntil("[0 1 0 ", "CL.THROTTLE", "k", 0, 1, "1h")
	p.kill()
	s, err := raftstore.Open(raftstore.Config{Dir: p.dir, Sync: true, Fatal: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Stable().SetUint64([]byte("CurrentTerm"), 1<<64-1), s.Close()); err != nil {
		t.Fatal(err)
	}
	arguments := []string{"--yes", "--data-dir", p.dir, "n1=" + p.raft}
	if code, _, errs := words("recover").with(arguments...); code != exitError || !strings.Contains(errs, "--reset-term") {
		t.Errorf("recover without --reset-term exits with %d, want 1 and a hint at the option: %s", code, errs)
	}
	if code, _, errs := words("recover").with(append([]string{"--reset-term"}, arguments...)...); code != exitOK {
		t.Errorf("recover with --reset-term exits with %d, want 0: %s", code, errs)
	}
	p.start()
	p.askUntil("[1 1 0 ", "CL.THROTTLE", "k", 0, 1, "1h")
}

// newJoining starts a node that joins a cluster through an existing node.
func newJoining(t *testing.T, id string, through *process, args ...string) *process {
	t.Helper()
	p := &process{t: t, id: id, addr: freeAddr(t), raft: freeAddr(t), dir: t.TempDir()}
	port := portOf(p.addr)
	p.args = append([]string{"--port", port, "--cluster-port", "0", "--sentinel-port", "0", "--data-dir", p.dir, "--cluster-id", "test", "--node-id", id,
		"--raft-addr", p.raft, "--raft-insecure", "yes", "--join", through.raft}, args...)
	p.start()
	return p
}
