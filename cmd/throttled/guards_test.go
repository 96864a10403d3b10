package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/redis/go-redis/v9"

	"github.com/throttledhq/throttled/cluster/raftstore"
	"github.com/throttledhq/throttled/cluster/transport"
	"github.com/throttledhq/throttled/internal/freeport"
	"github.com/throttledhq/throttled/topology"
)

// asProgram is an environment variable. If it is set, the test binary runs the program instead of the tests.
const asProgram = "THROTTLED_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// patience is the timeout for expected events. It is much longer than any event takes.
const patience = 2 * time.Minute

// process is a server that runs as a separate process, usually a cluster node.
type process struct {
	t        *testing.T
	id, addr string
	raft     string
	dir      string
	args     []string
	env      []string // added to the environment of the tests
	program  string   // path; "" for the program of this test
	cmd      *exec.Cmd
	log      *lockedBuffer
}

func freeAddr(t *testing.T) string {
	t.Helper()
	return fmt.Sprint("127.0.0.1:", freeport.Of(t))
}

// newProcesses starts the nodes of a cluster without certificates.
func newProcesses(t *testing.T, ids []string, args ...string) (all []*process) {
	t.Helper()
	return startProcesses(t, ids, func(string) []string { return append([]string{"--raft-insecure", "yes"}, args...) })
}

// startProcesses starts the nodes of a cluster, each with its own arguments.
func startProcesses(t *testing.T, ids []string, args func(id string) []string) (all []*process) {
	t.Helper()
	all = prepareProcesses(t, ids, args)
	for _, p := range all {
		p.start()
	}
	return all
}

// prepareProcesses returns the nodes of a cluster, each with its own arguments. They have not been started.
func prepareProcesses(t *testing.T, ids []string, args func(id string) []string) (all []*process) {
	t.Helper()
	var list []string
	for _, id := range ids {
		p := &process{t: t, id: id, addr: freeAddr(t), raft: freeAddr(t), dir: t.TempDir()}
		list = append(list, id+"="+p.raft)
		all = append(all, p)
	}
	for _, p := range all {
		port := portOf(p.addr)
		p.args = append([]string{"--port", port, "--cluster-port", "0", "--sentinel-port", "0", "--data-dir", p.dir, "--cluster-id", "test", "--node-id", p.id,
			"--raft-addr", p.raft, "--bootstrap", strings.Join(list, " ")}, args(p.id)...)
	}
	return all
}

func (p *process) start() {
	p.t.Helper()
	p.log = &lockedBuffer{}
	program := p.program
	if program == "" {
		program = os.Args[0]
	}
	p.cmd = exec.Command(program, p.args...)
	p.cmd.Env = append(append(os.Environ(), asProgram+"=1"), p.env...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	cmd := p.cmd
	p.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // reaps processes that the test has not waited for
	})
}

func (p *process) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	_ = p.cmd.Wait() // returns an error because of the kill
}

// waitExit waits for the process to exit, and returns the exit code and the time until the exit. The test fails if the
// process does not exit within the given time.
func (p *process) waitExit(within time.Duration) (code int, took time.Duration) {
	p.t.Helper()
	begin := time.Now()
	done := make(chan struct{})
	go func() {
		_ = p.cmd.Wait() // the exit code is checked instead
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(within):
		_ = p.cmd.Process.Kill()
		<-done
		p.t.Fatalf("%s is still running after %v:\n%s", p.id, within, p.log)
	}
	return p.cmd.ProcessState.ExitCode(), time.Since(begin)
}

// askUntil repeats a command until its reply contains the text want.
func (p *process) askUntil(want string, args ...any) {
	p.t.Helper()
	client := redis.NewClient(&redis.Options{Addr: p.addr, MaxRetries: -1, DisableIdentity: true})
	defer func() { _ = client.Close() }()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	for {
		got, err := client.Do(ctx, args...).Result()
		if err == nil && strings.Contains(fmt.Sprint(got), want) {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			p.t.Fatalf("%s does not return the expected reply to %v; the last reply is %v, error %v; the log of the process:\n%s", p.id, args, got, err, p.log)
		}
	}
}

// waitLog waits until the log contains text.
func (p *process) waitLog(text string) {
	p.t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for end := time.After(patience); !strings.Contains(p.log.String(), text); {
		select {
		case <-ticker.C:
		case <-end:
			p.t.Fatalf("the log of %s does not contain %q:\n%s", p.id, text, p.log)
		}
	}
}

// leads reports whether the process is the leader according to INFO.
func (p *process) leads() bool {
	client := redis.NewClient(&redis.Options{Addr: p.addr, MaxRetries: -1, DisableIdentity: true})
	defer func() { _ = client.Close() }()
	text, err := client.Do(p.t.Context(), "INFO", "replication").Text()
	return err == nil && strings.Contains(text, "role:master")
}

// leaderOf waits for a leader, and returns it and the other nodes.
func leaderOf(t *testing.T, all []*process) (leader *process, others []*process) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for end := time.After(patience); ; {
		for i, p := range all {
			if p.leads() {
				return p, append(append(others, all[:i]...), all[i+1:]...)
			}
		}
		select {
		case <-ticker.C:
		case <-end:
			for _, p := range all {
				t.Logf("the log of %s:\n%s", p.id, p.log.String())
			}
			t.Fatal("no node is the leader")
		}
	}
}

// TestProcess_InstallLoop sends a node the same snapshot repeatedly, as a Raft leader does if the log of
// the node does not match the log of the leader. The node must exit, and must move its log aside at the
// next start.
func TestProcess_InstallLoop(t *testing.T) {
	all := newProcesses(t, []string{"n1", "n2"})
	leader, others := leaderOf(t, all)
	victim := others[0]
	leader.askUntil("OK", "SAVE")
	leader.kill()
	snapshots, err := raft.NewFileSnapshotStore(filepath.Join(leader.dir, "current"), 2, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	list, err := snapshots.List()
	if err != nil || len(list) == 0 {
		t.Fatalf("the leader has %d snapshots, want at least 1; error %v", len(list), err)
	}
	l, err := transport.Listen(transport.Config{Cluster: "test", Node: leader.id, Bind: leader.raft, Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	trans := raft.NewNetworkTransport(l.Raft(), 1, patience, io.Discard)
	defer func() { _, _ = trans.Close(), l.Close() }()
	l.SetExpected(func(string) string { return victim.id })
	for range 3 {
		if err := sendSnapshot(trans, leader.id, victim, snapshots, list[0]); err != nil && !errors.Is(err, io.EOF) {
			t.Logf("the snapshot was refused: %v", err) // expected if the process is exiting
		}
	}
	if code, _ := victim.waitExit(patience); code != exitFailed || !strings.Contains(victim.log.String(), raftstore.ErrInstallLoop.Error()) {
		t.Errorf("the node exits with %d, want 75 and ErrInstallLoop in its log:\n%s", code, victim.log)
	}
	victim.start()
	victim.waitLog("the log was set aside")
	if _, err := os.Stat(filepath.Join(victim.dir, "aside-1")); err != nil {
		t.Error(err)
	}
}

// sendSnapshot sends a snapshot to a node as if the node with the given id were the leader of term 1000.
func sendSnapshot(from *raft.NetworkTransport, id string, to *process, snapshots raft.SnapshotStore, meta *raft.SnapshotMeta) error {
	_, content, err := snapshots.Open(meta.ID)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	args := raft.InstallSnapshotRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(id), Addr: []byte(from.LocalAddr())}, SnapshotVersion: raft.SnapshotVersionMax,
		Term: 1000, Leader: []byte(from.LocalAddr()), LastLogIndex: meta.Index, LastLogTerm: meta.Term,
		Configuration: raft.EncodeConfiguration(meta.Configuration), ConfigurationIndex: meta.ConfigurationIndex, Size: meta.Size,
	}
	return from.InstallSnapshot(raft.ServerID(to.id), raft.ServerAddress(to.raft), &args, new(raft.InstallSnapshotResponse), content)
}

// TestProcess_StuckTransfer transfers the leadership to a node that answers heartbeats but accepts no entries. Raft
// aborts the transfer after the heartbeat timeout, which is five seconds in this cluster. Until then the leader accepts
// no new entries. The leader must detect the stuck transfer before Raft aborts it, and exit.
func TestProcess_StuckTransfer(t *testing.T) {
	all := newProcesses(t, []string{"n1", "n2", "n3"}, "--raft-heartbeat", "5000")
	leader, others := leaderOf(t, all)
	leader.askUntil("raft_heartbeat_settled:yes", "INFO", "replication") // until the heartbeat is settled, a leadership transfer times out earlier
	leader.askUntil("", "CL.THROTTLE", "k", "1000", "1000", "1")
	others[0].kill()
	leader.askUntil(others[0].id+" raft="+others[0].raft+" role=follower answers=no", "CL.CLUSTER", "NODES")
	runNodeRejectingEntries(t, others[0])
	leader.askUntil(others[0].id+" raft="+others[0].raft+" role=follower answers=yes", "CL.CLUSTER", "NODES")
	client := redis.NewClient(&redis.Options{Addr: leader.addr, MaxRetries: -1, DisableIdentity: true})
	defer func() { _ = client.Close() }()
	if err := client.Do(t.Context(), "CL.CLUSTER", "TRANSFER", others[0].id).Err(); err == nil {
		t.Error("CL.CLUSTER TRANSFER to a node that accepts no entries succeeds, want an error")
	} else if strings.Contains(err.Error(), topology.ErrSilent.Error()) {
		t.Fatalf("the leadership transfer has not begun: %v", err)
	}
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	ended := make(chan struct{})
	go func() { // each request makes the leader add an entry, so that it detects that Raft refuses entries
		for {
			select {
			case <-ended:
				return
			case <-ticker.C:
				_ = client.Do(t.Context(), "CL.THROTTLE", "k", "1000", "1000", "1").Err()
			}
		}
	}()
	code, _ := leader.waitExit(patience)
	close(ended)
	if code != exitFailed || !strings.Contains(leader.log.String(), raftstore.ErrStuckTransfer.Error()) {
		t.Errorf("the leader exits with %d, want 75 and ErrStuckTransfer in its log:\n%s", code, leader.log)
	}
}

// runNodeRejectingEntries runs a fake node at the Raft address of a stopped node. The fake accepts no entries, as if
// its log did not match the leader's.
func runNodeRejectingEntries(t *testing.T, p *process) {
	t.Helper()
	l, err := transport.Listen(transport.Config{Cluster: "test", Node: p.id, Bind: p.raft, Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	trans := raft.NewNetworkTransport(l.Raft(), 1, patience, io.Discard)
	t.Cleanup(func() { _ = errors.Join(trans.Close(), l.Close()) })
	answer := func(rpc raft.RPC) {
		if q, ok := rpc.Command.(*raft.AppendEntriesRequest); ok {
			rpc.Respond(&raft.AppendEntriesResponse{Term: q.Term, Success: len(q.Entries) == 0}, nil)
			return
		}
		rpc.Respond(nil, errors.New("not today"))
	}
	trans.SetHeartbeatHandler(answer)
	go func() {
		for {
			select {
			case rpc := <-trans.Consumer():
				answer(rpc)
			case <-t.Context().Done():
				return
			}
		}
	}()
}

// TestProcess_Gap starts a node whose log lacks entries that no snapshot contains. The node must exit and log the
// reason.
func TestProcess_Gap(t *testing.T) {
	p := newProcesses(t, []string{"n1"})[0]
	for range 5 {
		p.askUntil("", "DEL", "k") // succeeds when the node is the leader
		p.askUntil("OK", "FLUSHALL")
	}
	p.kill()
	s, err := raftstore.Open(raftstore.Config{Dir: p.dir, Sync: true, Fatal: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Logs().DeleteRange(1, 2), s.Close()); err != nil {
		t.Fatal(err)
	}
	p.start()
	if code, _ := p.waitExit(patience); code == exitOK || !strings.Contains(p.log.String(), raftstore.ErrGap.Error()) {
		t.Errorf("the node exits with %d, want an error and ErrGap in its log:\n%s", code, p.log)
	}
}
