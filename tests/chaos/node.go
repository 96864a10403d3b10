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

// The ports of every node on its own host.
const (
	clientPort   = 6380
	raftPort     = 6382
	clusterPort  = 6384
	sentinelPort = 26380
)

// startWithin is the timeout for a node to answer after its start.
const startWithin = 15 * time.Second

// node is a node of the cluster: a process, its host and its files. Its methods are safe for
// concurrent use.
type node struct {
	id   string
	host *host
	dir  string // directory of all files of the node: the data directory is data, the log file is log
	bin  string
	join string // raft addresses to join through; empty for an initial node
	args []string
	env  []string

	mu    sync.Mutex
	boots []*boot
}

// boot is one process of a node.
type boot struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has exited
	code  int           // exit code, or 128 + signal; valid after ended is closed
	asked bool          // the exit is expected; guarded by the node's mu
}

func (n *node) addr() string     { return net.JoinHostPort(n.host.addr, strconv.Itoa(clientPort)) }
func (n *node) raftAddr() string { return net.JoinHostPort(n.host.addr, strconv.Itoa(raftPort)) }
func (n *node) dataDir() string  { return filepath.Join(n.dir, "data") }
func (n *node) logFile() string  { return filepath.Join(n.dir, "log") }
func (n *node) wallFile() string { return filepath.Join(n.dir, "wall") }

// start starts the process unless it is running. It does not wait until the node is ready.
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
	defer func() { _ = log.Close() }() // the process has its own descriptor
	b := &boot{cmd: n.host.command(append([]string{n.bin}, n.args...)...), ended: make(chan struct{})}
	b.cmd.Stdout, b.cmd.Stderr = log, log
	b.cmd.Env = append(append(os.Environ(), "THROTTLED_CHAOS_WALL="+n.wallFile()), n.env...)
	if err := b.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", n.id, err)
	}
	n.boots = append(n.boots, b)
	go func() {
		_ = b.cmd.Wait() // ProcessState is more precise than the error
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

// running returns the process, or nil if it has exited.
func (n *node) running() *boot {
	n.mu.Lock()
	defer n.mu.Unlock()
	if b := n.last(); b != nil && !b.over() {
		return b
	}
	return nil
}

// signal sends a signal to the process if it is running.
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

// kill kills the process and waits for its exit.
func (n *node) kill() error {
	b := n.running()
	if b == nil {
		return nil
	}
	err := n.signal(syscall.SIGKILL)
	<-b.ended
	return err
}

// stop sends SIGTERM, as a supervisor does, and returns the exit code.
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
		err := n.signal(syscall.SIGQUIT) // writes the stacks of all goroutines to the log
		<-b.ended
		return 0, errors.Join(fmt.Errorf("%s does not exit within %s after SIGTERM", n.id, within), err)
	}
}

// crashes returns the exit codes of those processes of the node that exited unexpectedly.
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

// expectExit marks the exit of the newest process as expected, and returns that process. It returns nil
// if there is none.
func (n *node) expectExit() *boot {
	n.forgive()
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.last()
}

// wipe removes all data of the node, as if its disk were replaced. At its next start the node joins
// through the node at the given IP address.
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

// forgive marks the exit of the newest process as expected.
func (n *node) forgive() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if b := n.last(); b != nil {
		b.asked = true
	}
}

// info returns the replication section of INFO.
func (n *node) info(within time.Duration) (map[string]string, error) {
	return n.section(within, "replication")
}

// section returns the fields of a section of INFO.
func (n *node) section(within time.Duration, name string) (map[string]string, error) {
	r, err := askOnce(n.addr(), within, "INFO", name)
	return fields(r.text), err
}

// ready waits until the node answers and reports a leader.
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

// setWall sets the offset of the node's wall clock to d.
func (n *node) setWall(d time.Duration) error {
	temporary := n.wallFile() + ".new"
	if err := os.WriteFile(temporary, []byte(strconv.FormatInt(int64(d), 10)), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, n.wallFile())
}
