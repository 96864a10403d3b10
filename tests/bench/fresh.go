package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const maxFresh = 60 * time.Second

// fresh clones the repository, runs the command from the README, and waits for the first
// reply. The modules have been downloaded, but nothing is compiled yet, as on a new
// machine.
func fresh(_ settings, b *board) (err error) {
	dir, err := os.MkdirTemp("", "throttled-fresh-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	port, err := freePort()
	if err != nil {
		return err
	}
	clone := filepath.Join(dir, "throttled")
	start := time.Now()
	if out, err := exec.Command("git", "clone", "-q", ".", clone).CombinedOutput(); err != nil {
		return fmt.Errorf("git clone: %w\n%s", err, out)
	}
	run := exec.Command("make", "run", "ARGS=--port "+port)
	run.Dir = clone
	run.Env = append(os.Environ(), "GOCACHE="+filepath.Join(dir, "cache"))
	// A separate process group makes the signal reach both make and the server, as Ctrl-C does.
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := run.Start(); err != nil {
		return err
	}
	defer func() {
		_ = syscall.Kill(-run.Process.Pid, syscall.SIGTERM)
		_ = run.Wait() // make reports the signal as a failure
	}()
	if err := firstReply("127.0.0.1:"+port, start.Add(2*maxFresh)); err != nil {
		return err
	}
	b.atMost("git clone to the first reply", time.Since(start).Seconds(), maxFresh.Seconds(), "s")
	return nil
}

// freePort returns a port that is free at the moment.
func freePort() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(ln.Addr().String())
	return port, errors.Join(err, ln.Close())
}

// firstReply dials until the server accepts a connection, and compares the reply to one request with
// the expected reply.
func firstReply(addr string, deadline time.Time) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for range ticker.C {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			err = exchange(c, "CL.THROTTLE user123 15 30 60\r\n", "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n")
			return errors.Join(err, c.Close())
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no reply: %w", err)
		}
	}
	return nil
}
