//go:build upgrade

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

var upgradeFrom = flag.String("from", "HEAD~1", "commit of the other program in TestUpgrade")

const (
	upgradeKeys  = 5   // of a phase
	upgradeLimit = 200 // of a key
	upgradeCalls = 200 // of all clients together in a phase
	maxBehind    = 100 // log entries that a node may lack when the next one is stopped
)

// upgrade is the load during an upgrade. In each phase, all clients charge keys that no other phase uses.
type upgrade struct {
	t       *testing.T
	all     []*process
	stopped atomic.Bool
	phase   atomic.Int64
	calls   atomic.Int64 // answered calls in all phases
	clients sync.WaitGroup

	mu        sync.Mutex
	stopping  *process         // node that is being replaced
	admitted  map[string]int64 // by key
	uncertain map[string]int64 // calls without an answer, by key
	closed    int              // connections that were closed without an answer to a call
}

func upgradeKey(phase int64, i int) string { return fmt.Sprintf("phase:%d:%d", phase, i%upgradeKeys) }

// run is one client. It uses another node when its connection is closed.
func (u *upgrade) run(first int) {
	for at := first; !u.stopped.Load(); at++ {
		p := u.all[at%len(u.all)]
		client := redis.NewClient(&redis.Options{Addr: p.addr, MaxRetries: -1, PoolSize: 1, DisableIdentity: true, DialerRetries: 1, ReadTimeout: patience})
		u.use(client, p)
		_ = client.Close()
	}
}

// use sends calls to a node until its connection is closed.
func (u *upgrade) use(client *redis.Client, p *process) {
	for i := 0; !u.stopped.Load(); i++ {
		k := upgradeKey(u.phase.Load(), i)
		reply, err := client.Do(context.Background(), "CL.THROTTLE", k, upgradeLimit-1, 1, 86400).Int64Slice()
		if err != nil {
			u.failed(k, p, err)
			return
		}
		u.mu.Lock()
		u.admitted[k] += 1 - reply[0]
		u.mu.Unlock()
		u.calls.Add(1)
	}
}

// failed records a call that has failed. The only permitted failures are closed and refused connections of the node that is
// being replaced.
func (u *upgrade) failed(k string, p *process, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	var reply redis.Error
	if errors.As(err, &reply) || p != u.stopping {
		u.t.Errorf("a call to %s fails: %v", p.id, err)
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return // nothing was sent
	}
	u.uncertain[k]++
	u.closed++
}

// settle begins a phase, and waits until the clients have sent calls in it.
func (u *upgrade) settle() {
	u.phase.Add(1)
	want := u.calls.Load() + upgradeCalls
	until(u.t, "all clients have answers", func() bool { return u.calls.Load() >= want })
}

// replace stops a node and starts it with another program.
func (u *upgrade) replace(p *process, program string) {
	u.mark(p)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		u.t.Fatal(err)
	}
	if code, _ := p.waitExit(patience); code != exitOK {
		u.t.Errorf("%s exits with %d:\n%s", p.id, code, p.log)
	}
	p.program = program
	p.start()
	until(u.t, p.id+" has caught up", func() bool { return u.caughtUp(p) })
	u.mark(nil)
	u.settle()
}

func (u *upgrade) mark(p *process) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stopping = p
}

// caughtUp reports whether the leader has the log position of a node, and the node accepts clients.
func (u *upgrade) caughtUp(p *process) bool {
	own := redis.NewClient(&redis.Options{Addr: p.addr, MaxRetries: -1, DisableIdentity: true, DialerRetries: 1})
	defer func() { _ = own.Close() }()
	if own.Do(u.t.Context(), "CL.THROTTLE", "peek", 1, 1, 60, 0).Err() != nil {
		return false
	}
	for _, at := range u.all {
		client := redis.NewClient(&redis.Options{Addr: at.addr, MaxRetries: -1, DisableIdentity: true})
		lines, err := client.Do(u.t.Context(), "CL.CLUSTER", "NODES").StringSlice()
		_ = client.Close()
		if err != nil {
			return false
		}
		for _, line := range lines {
			if strings.HasPrefix(line, p.id+" ") && isClose(line) {
				return true
			}
		}
	}
	return p.leads()
}

// isClose reports whether a line of CL.CLUSTER NODES shows that a node lacks few entries.
func isClose(line string) bool {
	_, text, found := strings.Cut(line, " answers=yes behind=")
	word, _, _ := strings.Cut(text, " ")
	behind, err := strconv.Atoi(word)
	return found && err == nil && behind < maxBehind
}

// checkExact drains all keys. Each must have admitted exactly its limit, except for calls without an answer.
func (u *upgrade) checkExact() {
	client := redis.NewClient(&redis.Options{Addr: u.all[0].addr, MaxRetries: -1, DisableIdentity: true})
	defer func() { _ = client.Close() }()
	for k, n := range u.admitted {
		for {
			reply, err := client.Do(u.t.Context(), "CL.THROTTLE", k, upgradeLimit-1, 1, 86400, 1).Int64Slice()
			if err != nil {
				u.t.Fatal(err)
			}
			if reply[0] == 1 {
				break
			}
			n++
		}
		if n > upgradeLimit || n+u.uncertain[k] < upgradeLimit {
			u.t.Errorf("%s: %d admitted and %d without an answer, limit %d", k, n, u.uncertain[k], upgradeLimit)
		}
	}
}

// otherProgram builds the program of another commit.
func otherProgram(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	tree, program := filepath.Join(dir, "tree"), filepath.Join(dir, "throttled")
	execute := func(in, name string, args ...string) {
		cmd := exec.Command(name, args...)
		cmd.Dir = in
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
	}
	execute("../..", "git", "worktree", "add", "--detach", tree, *upgradeFrom)
	t.Cleanup(func() { execute("../..", "git", "worktree", "remove", "--force", tree) })
	execute(tree, "go", "build", "-o", program, "./cmd/throttled")
	return program
}

// TestUpgrade replaces the nodes of a cluster one by one, from the program of another commit to this one, and back, while
// clients charge keys through all nodes. No call may fail except on connections that a stopped node closes, and each key admits
// exactly its limit.
func TestUpgrade(t *testing.T) {
	logging.Disable() // refused connections are expected
	old := otherProgram(t)
	u := &upgrade{t: t, admitted: map[string]int64{}, uncertain: map[string]int64{}}
	u.all = prepareProcesses(t, []string{"n1", "n2", "n3"}, func(string) []string {
		return []string{"--raft-insecure", "yes", "--raft-heartbeat", "1000"}
	})
	for _, p := range u.all {
		p.program = old
		p.start()
	}
	for _, p := range u.all {
		p.askUntil("[0 ", "CL.THROTTLE", "first", 1, 1, 60, 0)
	}
	for i := range 6 {
		u.clients.Go(func() { u.run(i) })
	}
	u.settle()
	for _, program := range []string{"", old} {
		for _, p := range u.all {
			u.replace(p, program)
		}
	}
	u.stopped.Store(true)
	u.clients.Wait()
	u.checkExact()
	t.Logf("%d calls in %d phases; %d connections were closed without an answer to a call", u.calls.Load(), u.phase.Load(), u.closed)
	if t.Failed() {
		for _, p := range u.all {
			t.Logf("the log of %s:\n%s", p.id, p.log)
		}
	}
}
