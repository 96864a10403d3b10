package failpoint

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestUnknownBug checks that a process with the tag chaos does not start if the chosen bug does not exist. The process is this
// package's test, without tests.
func TestUnknownBug(t *testing.T) {
	for bug, want := range map[string]string{"": "ok", string(LostBatch): "ok", "lost": "THROTTLED_MUTANT=lost: there is no such bug", "x\"": "no such bug"} {
		cmd := exec.Command("go", "test", "-tags", "chaos", "-count=1", "-vet=off", "-run", "^$", ".")
		cmd.Env = append(os.Environ(), "THROTTLED_MUTANT="+bug)
		out, err := cmd.CombinedOutput()
		if !strings.Contains(string(out), want) || (err == nil) != (want == "ok") {
			t.Errorf("%q: error %v, output %s; want %s", bug, err, out, want)
		}
	}
}
