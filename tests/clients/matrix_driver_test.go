package clienttests

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// driver is a program in drivers/ that makes calls with one client. drivers/README.md describes
// its options and its output.
type driver struct {
	name string // the client, as in the documentation
	set  string // the argument of scripts/install-clients.sh that installs the client
	// command is the program with its first arguments. "{cache}" stands for the directory of
	// installed clients.
	command []string
	env     []string
	build   []string // command that builds the driver; the directory is drivers/
	modes   []string // ways to connect
	resp    []int    // protocol versions that can be selected; empty if there is no option
	// callers is the number of concurrent callers in one process: loadCallers, or 1 if the
	// language or the client has no concurrency.
	callers int
	// lacks has the checks, variants and modes that the client does not support, with the reason.
	// The key of a check or variant in one mode is "MODE CHECK".
	lacks map[string]string
	// settings has the settings that the client needs to continue after the loss of the leader, by mode.
	settings map[string]string
	// repeats has the modes in which the program repeats calls, because the library does not. examples/clients has the loop.
	repeats []string
}

// The ways to connect.
const (
	modePlain    = "standalone"
	modeCluster  = "cluster"
	modeSentinel = "sentinel"
)

// portOf has the port of a node for each mode.
var portOf = map[string]string{modePlain: portForAll, modeCluster: portForCluster, modeSentinel: portForSentinel}

// verdict is a line of output of a driver.
type verdict struct {
	Check, Event, Detail string
	OK                   bool
	Admitted             int
	Calls, Failed        int
	Repeated             int              // calls that the library failed and the program repeated
	GapMS                float64          `json:"gap_ms"`
	LastMS               float64          `json:"last_ms"`
	Errors               []map[string]int // of each caller, by text
}

// problem returns the reason why a check has failed, or "" if it has passed.
func (v verdict) problem() string {
	if v.OK {
		return ""
	}
	return v.Check + ": " + v.Detail
}

// cacheDir is the directory in which scripts/install-clients.sh installs clients.
func cacheDir(t *testing.T) string {
	t.Helper()
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "throttled-clients")
}

// inCache replaces "{cache}" in words by the directory of installed clients.
func inCache(t *testing.T, words []string) []string {
	t.Helper()
	list := make([]string, len(words))
	for i, word := range words {
		list[i] = strings.ReplaceAll(word, "{cache}", cacheDir(t))
	}
	return list
}

// prepare builds the driver, if it must be built.
func (d *driver) prepare(t *testing.T) {
	t.Helper()
	if len(d.build) == 0 {
		return
	}
	line := inCache(t, d.build)
	cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
	cmd.Dir = "drivers"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the driver of %s: %v; run scripts/install-clients.sh %s\n%s", d.name, err, d.set, out)
	}
}

// driverRun is a running driver.
type driverRun struct {
	cmd    *exec.Cmd
	stop   context.CancelFunc
	in     io.WriteCloser
	out    *bufio.Scanner
	stderr bytes.Buffer
}

// begin starts a driver. The driver is killed after the timeout.
func (d *driver) begin(t *testing.T, timeout time.Duration, args ...string) *driverRun {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(stop)
	line := append(inCache(t, d.command), args...)
	r := &driverRun{cmd: exec.CommandContext(ctx, line[0], line[1:]...), stop: stop}
	r.cmd.Dir = "drivers"
	r.cmd.Env = append(append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1"), inCache(t, d.env)...)
	r.cmd.Stderr = &r.stderr
	r.cmd.WaitDelay = time.Second
	in, inErr := r.cmd.StdinPipe()
	out, outErr := r.cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		t.Fatal(err)
	}
	r.in, r.out = in, bufio.NewScanner(out)
	if err := r.cmd.Start(); err != nil {
		t.Fatalf("%s: %v; run scripts/install-clients.sh %s", d.name, err, d.set)
	}
	return r
}

// next reads one line of output. The error contains the standard error of the driver if there is no line.
func (r *driverRun) next() (v verdict, err error) {
	if !r.out.Scan() {
		return v, fmt.Errorf("the driver prints no further line: %w", errors.Join(io.ErrUnexpectedEOF, r.end(), errors.New(lastLines(r.stderr.String()))))
	}
	if err := json.Unmarshal(r.out.Bytes(), &v); err != nil {
		return v, fmt.Errorf("the driver prints %q: %w", r.out.Bytes(), err)
	}
	return v, nil
}

// nextWithin is like next, but kills the driver after a timeout.
func (r *driverRun) nextWithin(timeout time.Duration) (verdict, error) {
	timer := time.AfterFunc(timeout, r.stop)
	defer timer.Stop()
	return r.next()
}

// end waits until the driver exits. A driver must exit with code 0 and write nothing to standard error.
func (r *driverRun) end() error {
	_ = r.in.Close() // fails if the driver has exited
	err := r.cmd.Wait()
	r.stop()
	if err == nil && r.stderr.Len() > 0 {
		err = errors.New("the driver prints to standard error: " + lastLines(r.stderr.String()))
	}
	return err
}

// lastLines returns the last three lines of a text.
func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}

// check runs checks, and returns their verdicts by name. A check without a verdict has failed.
func (d *driver) check(t *testing.T, checks []string, args ...string) map[string]verdict {
	t.Helper()
	r := d.begin(t, patience, append([]string{"--check", strings.Join(checks, ",")}, args...)...)
	verdicts := map[string]verdict{}
	for _, name := range checks {
		v, err := r.next()
		if err != nil {
			verdicts[name] = verdict{Check: name, Detail: err.Error()}
			return verdicts
		}
		verdicts[name] = v
	}
	if err := r.end(); err != nil {
		verdicts["exit"] = verdict{Check: "exit", Detail: err.Error()}
	}
	return verdicts
}

// target returns the options of a driver for a server.
func target(mode, key, password string, addresses ...string) []string {
	args := []string{"--mode", mode, "--key", key, "--addr", strings.Join(addresses, ",")}
	if password != "" {
		args = append(args, "--password", password)
	}
	return args
}

// expectAll reports each check that has failed.
func expectAll(t *testing.T, verdicts map[string]verdict) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(verdicts)) {
		if problem := verdicts[name].problem(); problem != "" {
			t.Error(problem)
		}
	}
}

// admitted runs the check "concurrent" with fifty callers, in one process or in several, and returns the number of
// admitted calls.
func (d *driver) admitted(t *testing.T, args ...string) (sum int) {
	t.Helper()
	processes, callers := 1, concurrentCallers
	if d.callers == 1 {
		processes, callers = concurrentCallers, 1
	}
	var runs []*driverRun
	for range processes {
		all := append([]string{"--check", "concurrent", "--callers", strconv.Itoa(callers)}, args...)
		runs = append(runs, d.begin(t, patience, all...))
	}
	for _, r := range runs {
		v, err := r.next()
		if err != nil || !v.OK {
			t.Errorf("concurrent: %v %s", err, v.Detail)
			continue
		}
		if err := r.end(); err != nil {
			t.Errorf("concurrent: %v", err)
		}
		sum += v.Admitted
	}
	return sum
}
