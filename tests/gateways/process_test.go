package gatewaystests

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/throttledhq/throttled/internal/procpause"
)

// patience is the timeout for expected events.
const patience = 2 * time.Minute

// process is a running gateway or server, in a process group of its own.
type process struct {
	name   string
	cmd    *exec.Cmd
	log    buffer
	exited chan struct{} // closed when the process has exited
}

// buffer collects the output of a process.
type buffer struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.String()
}

// launch starts a program in a directory. It is killed when the test ends, and its log is printed if the test has failed.
func launch(t *testing.T, dir, program string, args ...string) *process {
	t.Helper()
	p := &process{name: filepath.Base(program), cmd: exec.Command(program, args...), exited: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // the exit code is in ProcessState
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("log of %s:\n%s", p.name, tail(p.log.String()))
		}
	})
	return p
}

// tail returns the end of a log.
func tail(log string) string {
	const most = 4 << 10
	if len(log) > most {
		log = "...\n" + log[len(log)-most:]
	}
	return log
}

// kill kills the process group, and waits until the process has exited.
func (p *process) kill() {
	select {
	case <-p.exited:
	default:
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // it may exit concurrently
		<-p.exited
	}
}

// terminate stops the process with SIGTERM, and waits until it has exited.
func (p *process) terminate(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("stop %s: %v", p.name, err)
	}
	select {
	case <-p.exited:
	case <-time.After(patience):
		t.Fatalf("%s has not exited %v after SIGTERM", p.name, patience)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("%s: got exit code %d after SIGTERM, want 0", p.name, code)
	}
}

// freeze stops the process with SIGSTOP, and waits until all of its threads have stopped.
func (p *process) freeze(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	await(t, p.name+" to be stopped", func() error { return procpause.Check(p.cmd.Process.Pid) })
}

// await calls check until it returns nil. There is no event for the conditions of other programs.
func await(t *testing.T, what string, check func() error) {
	t.Helper()
	end := time.Now().Add(patience)
	err := check()
	for ; err != nil; err = check() {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s: %v", patience, what, err)
		}
		time.Sleep(5 * time.Millisecond) // the polling interval
	}
}
