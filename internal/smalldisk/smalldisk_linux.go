// Package smalldisk runs tests of a full disk in child processes, each on a small file system of its own.
package smalldisk

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// exitNotPermitted is the exit code of a child process that is not permitted to mount a file system.
const exitNotPermitted = 77

// Mount mounts an empty file system of a size, such as "4m", at dir. It runs in the child process. If the system does not
// permit the mount, the process exits.
func Mount(dir, size string) {
	err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	if err == nil {
		err = syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size)
	}
	if err != nil {
		os.Exit(exitNotPermitted)
	}
}

// Run runs a child process that calls Mount, and reports its failure as an error of the test. If the system does not permit
// the mount, Run only logs the reason.
func Run(t *testing.T, child *exec.Cmd) {
	t.Helper()
	child.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := child.CombinedOutput()
	var exit *exec.ExitError
	notPermitted := errors.As(err, &exit) && exit.ExitCode() == exitNotPermitted
	if notPermitted || errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		t.Logf("no file system could be mounted (%v)", err)
		return
	}
	if err != nil {
		t.Errorf("the process on a small file system fails with %v:\n%s", err, out)
	}
}
