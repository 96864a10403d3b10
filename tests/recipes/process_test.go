package recipes

import (
	"bytes"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a child process in a process group of its own, so that its own children are killed with it.
type process struct {
	cmd  *exec.Cmd
	log  *output
	done chan struct{} // closed when the process has exited
}

// startProcess starts cmd, which is killed when the test ends.
func startProcess(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, log: new(output), done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.log, p.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // it is killed
	}()
	t.Cleanup(p.kill)
	return p
}

// kill kills the process and its children.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // a failure means that it has exited
	<-p.done
}

// eventually retries f until it succeeds. It fails the test if the process exits.
func eventually(t *testing.T, p *process, f func() error) {
	t.Helper()
	timeout := time.After(patience)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-p.done:
			t.Fatalf("%s exited: %v; output:\n%s", p.cmd.Path, err, p.log)
		case <-timeout:
			t.Fatalf("no success after %v: %v; output of %s:\n%s", patience, err, p.cmd.Path, p.log)
		case <-again.C:
		}
	}
}

// output collects the output of a process.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds output.
func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(text)
}

// String returns the output so far.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
