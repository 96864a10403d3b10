// Package procpause checks whether a process is paused by SIGSTOP, for tests.
package procpause

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Check returns nil if all threads of a process are stopped. Threads stop some time after SIGSTOP was sent.
func Check(pid int) error {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return err
	}
	if len(threads) == 0 {
		return errors.New("the process has no threads")
	}
	for _, name := range threads {
		stat, err := os.ReadFile(name) // #nosec G304 -- a file of /proc
		if err != nil {
			return err
		}
		if _, rest, _ := strings.Cut(string(stat), ") "); !strings.HasPrefix(rest, "T") {
			return fmt.Errorf("a thread is not stopped: %s", stat)
		}
	}
	return nil
}
