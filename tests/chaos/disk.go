package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// mount mounts a small file system on the data directory of a node.
func (c *cluster) mount(n *node) error {
	size := fmt.Sprintf("size=%dm,mode=0700", c.plan.disk)
	if err := run(exec.Command("mount", "-t", "tmpfs", "-o", size, c.net.prefix, n.dataDir())); err != nil {
		return err
	}
	c.disks = append(c.disks, n.dataDir())
	return nil
}

const filler = "filler"

// fill uses all free space on the disk of a node. The returned function, heal, frees the space.
func (n *node) fill() (heal func() error, err error) {
	path := filepath.Join(n.dataDir(), filler)
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	block := make([]byte, 64<<10)
	for len(block) > 0 {
		if _, err = f.Write(block); errors.Is(err, syscall.ENOSPC) {
			block = block[:len(block)/2] // fill the remaining space with smaller blocks
		} else if err != nil {
			break
		}
	}
	if closed := f.Close(); len(block) > 0 {
		return nil, errors.Join(fmt.Errorf("fill the disk: %w", err), closed)
	}
	return func() error { return os.Remove(path) }, nil
}

// attachWithin is the timeout for strace to attach to all threads of a node.
const attachWithin = 5 * time.Second

// inject makes the syncs of a node fail or hang. The how argument is a fault in the syntax of
// strace, such as "error=EIO". The fault lasts until the node exits, or until the returned
// function, heal, is called.
func (n *node) inject(how string) (heal func() error, err error) {
	return n.injectInto("fsync,fdatasync", how)
}

// injectInto makes the given system calls of a node fail or hang, as inject does for syncs. If files
// are given, only calls on these files are affected.
func (n *node) injectInto(calls, how string, files ...string) (heal func() error, err error) {
	b := n.running()
	if b == nil {
		return nil, fmt.Errorf("%s is not running", n.id)
	}
	cmd := exec.Command("strace", "-f", "-o", os.DevNull, "-p", fmt.Sprint(b.cmd.Process.Pid), "-e", "trace="+calls, "-e", "inject="+calls+":"+how)
	for _, f := range files {
		cmd.Args = append(cmd.Args, "-P", f)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("strace: %w", err)
	}
	attached, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(stderr)
		heard := ""
		for lines.Scan() {
			if heard = lines.Text(); strings.Contains(heard, "attached") {
				select {
				case attached <- nil:
				default:
				}
			}
		}
		select {
		case attached <- fmt.Errorf("strace prints %q", heard):
		default:
		}
		ended <- cmd.Wait()
	}()
	select {
	case err = <-attached:
	case <-time.After(attachWithin):
		err = errors.New("strace does not attach")
	}
	heal = func() error {
		// strace must be killed: it ignores other signals while it delays a call. The node continues
		// after the exit of strace.
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		<-ended // the error of Wait is ignored: strace was killed
		return nil
	}
	if err != nil {
		return nil, errors.Join(err, heal())
	}
	return heal, nil
}
