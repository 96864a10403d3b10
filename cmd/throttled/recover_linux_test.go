package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/throttledhq/throttled/cluster/raftstore"
)

// terminal opens a pseudoterminal. It returns the side that the operator uses and the side that the program uses.
func terminal(t *testing.T) (operator, program *os.File) {
	t.Helper()
	operator, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = operator.Close() })
	var number, locked int32
	for request, value := range map[uintptr]*int32{syscall.TIOCGPTN: &number, syscall.TIOCSPTLCK: &locked} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, operator.Fd(), request, uintptr(unsafe.Pointer(value))); errno != 0 {
			t.Fatal(errno)
		}
	}
	program, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return operator, program
}

// TestProcess_RecoverInterrupted checks that Ctrl-C at the prompt changes nothing.
func TestProcess_RecoverInterrupted(t *testing.T) {
	dir := t.TempDir()
	p, _, _ := openNode(t, dir)
	startNode(t, p)
	release(t, p)
	before, err := raftstore.Inspect(dir)
	if err != nil {
		t.Fatal(err)
	}
	operator, program := terminal(t)
	var log lockedBuffer
	cmd := exec.Command(os.Args[0], "recover", "--data-dir", dir, alone+"=127.0.0.1:1")
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // standard input becomes the controlling terminal
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	asked := &process{t: t, id: "recover", log: &log}
	asked.waitLog("Type yes")
	if _, err := operator.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	err = <-ended
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitError || !strings.Contains(log.String(), errInterrupted.Error()) {
		t.Errorf("recover exits with %v, want code 1 and errInterrupted in its output:\n%s", err, &log)
	}
	if after, err := raftstore.Inspect(dir); err != nil || after.Identity.Recovery != before.Identity.Recovery {
		t.Errorf("the recovery id was %q and is %q, error %v; want no change", before.Identity.Recovery, after.Identity.Recovery, err)
	}
}
