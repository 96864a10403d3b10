package main

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/cluster/raftstore"
	"github.com/throttledhq/throttled/gcra"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/options"
)

// openNode opens a standalone node with its log in dir. When the node would terminate the process, it sends the exit
// code to the channel exits instead.
func openNode(t *testing.T, dir string) (p *program, log *lockedBuffer, exits chan int) {
	t.Helper()
	opts, err := options.Load([]string{"--data-dir", dir, "--port", "0"}, noEnv)
	if err != nil {
		t.Fatal(err)
	}
	log, exits = &lockedBuffer{}, make(chan int, 10)
	if p, err = open(opts, log); err != nil {
		t.Fatal(err)
	}
	p.replica.exit = func(code int) { exits <- code }
	return p, log, exits
}

func startNode(t *testing.T, p *program) {
	t.Helper()
	if err := p.replica.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for end := time.After(patience); !p.replica.node.View().Leading; {
		select {
		case <-p.replica.node.View().Changed:
		case <-end:
			t.Fatal("the node is not the leader")
		}
	}
}

// chargeOn charges a key, which writes an entry to the log of the node.
func chargeOn(t *testing.T, p *program) {
	t.Helper()
	limit, err := gcra.NewLimit(10, 1, limiter.Seconds(1))
	if err != nil {
		t.Fatal(err)
	}
	out := make([]limiter.Decision, 1)
	token := p.replica.node.Decide([]limiter.Request{{Kind: limiter.Throttle, Key: []byte("k"), Limit: limit, Quantity: 1}}, out)
	if err := errors.Join(out[0].Err, p.replica.node.WaitCommitted(token)); err != nil {
		t.Fatal(err)
	}
}

func release(t *testing.T, p *program) {
	t.Helper()
	if err := p.release(); err != nil {
		t.Errorf("release: %v", err)
	}
}

// install calls noteInstall the given number of times for the same snapshot.
func install(t *testing.T, p *program, index uint64, times int) (err error) {
	t.Helper()
	for range times {
		err = errors.Join(err, p.replica.noteInstall(index))
	}
	return err
}

// TestInstallLoop checks that a node exits when it installs the same snapshot for the third time. Raft must be able to
// write to the log until the exit. The next start must replace the log, and the start after it must keep the new log.
func TestInstallLoop(t *testing.T) {
	dir := t.TempDir()
	p, _, exits := openNode(t, dir)
	startNode(t, p)
	old, _ := p.replica.store.Identity()
	if err := install(t, p, 7, 2); err != nil || len(exits) > 0 {
		t.Errorf("two installs: %v, want no error and no exit", err)
	}
	if err := install(t, p, 7, 1); !errors.Is(err, raftstore.ErrInstallLoop) {
		t.Errorf("the third install: %v, want ErrInstallLoop", err)
	}
	if len(exits) != 1 || <-exits != exitFailed {
		t.Error("after the third install: want exactly one exit, with code 75")
	}
	if err := p.replica.store.Stable().SetUint64([]byte("vote"), 1); err != nil {
		t.Errorf("after the third install Raft cannot store its vote: %v; want no error until the process exits", err)
	}
	if err := p.replica.saver.Save(); err != nil {
		t.Errorf("after the third install Raft cannot take a snapshot: %v; want no error until the process exits", err)
	}
	release(t, p)

	p, log, _ := openNode(t, dir)
	if now, _ := p.replica.store.Identity(); now.Incarnation == old.Incarnation {
		t.Error("the node still has the data that should have been moved aside")
	}
	if aside := filepath.Join(dir, "aside-1"); !strings.Contains(log.String(), aside) || !strings.Contains(log.String(), raftstore.ErrInstallLoop.Error()) {
		t.Errorf("the log does not contain the directory %s and the reason:\n%s", aside, log)
	}
	startNode(t, p)
	release(t, p)

	p, log, _ = openNode(t, dir)
	if strings.Contains(log.String(), "aside") {
		t.Errorf("the log was moved aside again:\n%s", log)
	}
	release(t, p)
}

// TestOwnSnapshotIsNoInstall checks that the node's own snapshot, which Raft restores at startup, is not counted as an
// install.
func TestOwnSnapshotIsNoInstall(t *testing.T) {
	dir := t.TempDir()
	p, _, _ := openNode(t, dir)
	startNode(t, p)
	chargeOn(t, p)
	if err := p.replica.saver.Save(); err != nil {
		t.Fatal(err)
	}
	index := p.replica.node.Status().Snapshot
	release(t, p)
	p, _, exits := openNode(t, dir)
	startNode(t, p)
	if got := p.replica.node.Status().Snapshot; got != index || index == 0 {
		t.Errorf("the restarted node has a snapshot up to entry %d, want %d", got, index)
	}
	if err := install(t, p, index, 2); err != nil || len(exits) > 0 {
		t.Errorf("two installs after the restart: %v, want no error and no exit", err)
	}
	release(t, p)
}

// TestCloseOrder checks that the node is closed only after all goroutines that serve other nodes have exited.
func TestCloseOrder(t *testing.T) {
	p, _, _ := openNode(t, t.TempDir())
	startNode(t, p)
	r := p.replica
	r.serving.Go(func() {
		<-r.closed
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for range 10 {
			<-ticker.C
			if err := r.node.Snapshot(); errors.Is(err, raft.ErrRaftShutdown) {
				t.Error("the node was closed before the goroutines that serve other nodes exited")
				return
			}
		}
	})
	release(t, p)
}

// TestRecoverKeepsMarked marks a log to be moved aside at the next start, and recovers the cluster from this log. The
// log must then not be moved aside.
func TestRecoverKeepsMarked(t *testing.T) {
	dir := t.TempDir()
	p, _, _ := openNode(t, dir)
	startNode(t, p)
	if err := install(t, p, 7, 3); err == nil {
		t.Fatal("the install loop was not detected")
	}
	release(t, p)
	var out, errs bytes.Buffer
	if code := words("recover").run(t.Context(), []string{"--yes", "--data-dir", dir, alone + "=127.0.0.1:1"}, &out, &errs); code != exitOK {
		t.Fatalf("recover exits with %d, want 0: %s", code, &errs)
	}
	if _, aside, err := raftstore.SetAsideIfRequested(dir); err != nil || aside != "" {
		t.Errorf("the log was moved aside to %q, error %v; want no change", aside, err)
	}
}
