package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The ports of every node, each on its own host.
const (
	clientPort   = 6380
	raftPort     = 6382
	clusterPort  = 6384
	sentinelPort = 26380
)

// startWithin is how long a node may take until it answers.
const startWithin = 15 * time.Second

// node is a node of the cluster: a process, its host and its files. Its methods may be
// called from many goroutines at once.
type node struct {
	id   string
	host *host
	dir  string // of all its files; data is in data, logs in log
	bin  string
	join string // raft addresses to join through; empty for a node that begins with others
	args []string
	env  []string

	mu    sync.Mutex
	boots []*boot
}

// boot is one process of a node.
type boot struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has
	code  int           // after that: its exit code, or 128 and the signal
	asked bool          // somebody has ended it; guarded by the node's mu
}

func (n *node) addr() string     { return net.JoinHostPort(n.host.addr, strconv.Itoa(clientPort)) }
func (n *node) raftAddr() string { return net.JoinHostPort(n.host.addr, strconv.Itoa(raftPort)) }
func (n *node) dataDir() string  { return filepath.Join(n.dir, "data") }
func (n *node) logFile() string  { return filepath.Join(n.dir, "log") }
func (n *node) wallFile() string { return filepath.Join(n.dir, "wall") }

// start starts the process. It does not wait until it serves.
func (n *node) start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if b := n.last(); b != nil && !b.over() {
		return nil
	}
	log, err := os.OpenFile(n.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has its own
	b := &boot{cmd: n.host.command(append([]string{n.bin}, n.args...)...), ended: make(chan struct{})}
	b.cmd.Stdout, b.cmd.Stderr = log, log
	b.cmd.Env = append(append(os.Environ(), "THROTTLED_CHAOS_WALL="+n.wallFile()), n.env...)
	if err := b.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", n.id, err)
	}
	n.boots = append(n.boots, b)
	go func() {
		_ = b.cmd.Wait() // the state says more than the error
		b.code = b.cmd.ProcessState.ExitCode()
		if status, ok := b.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			b.code = 128 + int(status.Signal())
		}
		close(b.ended)
	}()
	return nil
}

func (n *node) last() *boot {
	if len(n.boots) == 0 {
		return nil
	}
	return n.boots[len(n.boots)-1]
}

func (b *boot) over() bool {
	select {
	case <-b.ended:
		return true
	default:
		return false
	}
}

// running returns the process if it is there.
func (n *node) running() *boot {
	n.mu.Lock()
	defer n.mu.Unlock()
	if b := n.last(); b != nil && !b.over() {
		return b
	}
	return nil
}

// signal sends a signal to the process, if it is there.
func (n *node) signal(s syscall.Signal) error {
	b := n.running()
	if b == nil {
		return nil
	}
	if s == syscall.SIGKILL || s == syscall.SIGTERM {
		n.mu.Lock()
		b.asked = true
		n.mu.Unlock()
	}
	if err := b.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %s to %s: %w", s, n.id, err)
	}
	return nil
}

// kill ends the process at once.
func (n *node) kill() error {
	b := n.running()
	if b == nil {
		return nil
	}
	err := n.signal(syscall.SIGKILL)
	<-b.ended
	return err
}

// stop ends the process as a supervisor does, and returns its exit code.
func (n *node) stop(within time.Duration) (code int, err error) {
	b := n.running()
	if b == nil {
		return 0, nil
	}
	if err := n.signal(syscall.SIGTERM); err != nil {
		return 0, err
	}
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-b.ended:
		return b.code, nil
	case <-timer.C:
		err := n.signal(syscall.SIGQUIT) // its log tells what each goroutine waits for
		<-b.ended
		return 0, errors.Join(fmt.Errorf("%s does not end within %s of SIGTERM", n.id, within), err)
	}
}

// crashes returns how processes of the node have ended that nobody had ended.
func (n *node) crashes() (codes []int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, b := range n.boots {
		if b.over() && !b.asked {
			codes = append(codes, b.code)
		}
	}
	return codes
}

// awaited is the newest process, whose end is then to be expected; nil if there has been none.
func (n *node) awaited() *boot {
	n.forgive()
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.last()
}

// wipe removes all data of the node, and lets it join through another one, as somebody would who has
// replaced its disk.
func (n *node) wipe(through string) error {
	if err := errors.Join(os.RemoveAll(n.dataDir()), os.MkdirAll(n.dataDir(), 0o700)); err != nil {
		return fmt.Errorf("wipe %s: %w", n.id, err)
	}
	n.join = net.JoinHostPort(through, strconv.Itoa(raftPort))
	for i := 0; i+1 < len(n.args); i++ {
		if n.args[i] == "--bootstrap" || n.args[i] == "--join" {
			n.args = slices.Delete(n.args, i, i+2)
		}
	}
	n.args = append(n.args, "--join", n.join)
	return nil
}

// forgive says that the end of the process that is there, or was last, is to be expected.
func (n *node) forgive() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if b := n.last(); b != nil {
		b.asked = true
	}
}

// info asks the node about its replication.
func (n *node) info(within time.Duration) (map[string]string, error) {
	r, err := askOnce(n.addr(), within, "INFO", "replication")
	return fields(r.text), err
}

// ready waits until the node answers and knows who leads.
func (n *node) ready(ctx context.Context) error {
	err := await(ctx, startWithin, func() (bool, error) {
		info, err := n.info(patience)
		return err == nil && info["leader"] != "", err
	})
	if err != nil {
		return fmt.Errorf("%s does not become ready: %w\n%s", n.id, err, n.tail(8))
	}
	return nil
}

// tail returns the last lines of the log.
func (n *node) tail(lines int) string {
	text, err := os.ReadFile(n.logFile())
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// setWall makes the node see a wall clock that is wrong by d.
func (n *node) setWall(d time.Duration) error {
	temporary := n.wallFile() + ".new"
	if err := os.WriteFile(temporary, []byte(strconv.FormatInt(int64(d), 10)), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, n.wallFile())
}
