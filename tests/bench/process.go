package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a running throttled server.
type process struct {
	cmd  *exec.Cmd
	dir  string
	addr string
	took time.Duration // time from start until ready
}

// readyAddress is the first address in the log line of a server that is ready. Earlier lines can have other addresses, such
// as that of Raft.
var readyAddress = regexp.MustCompile(`msg=ready .*?(127\.0\.0\.1:\d+)`)

// startServer builds the binary with release flags and starts it on a free port.
func startServer(args ...string) (*process, error) { return startUnder(nil, args...) }

// startUnder is like startServer, but runs the binary as an argument of the given command, such as taskset.
func startUnder(wrapper []string, args ...string) (*process, error) {
	dir, err := os.MkdirTemp("", "throttled-bench-")
	if err != nil {
		return nil, err
	}
	p := &process{dir: dir}
	binary := filepath.Join(dir, "throttled")
	if err := buildServer(binary); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p.launch(append(slices.Clone(wrapper), binary), args...)
}

// startBuilt is like startUnder, but starts a binary that buildServer has built. The last element of line is the binary.
func startBuilt(line []string, args ...string) (*process, error) {
	dir, err := os.MkdirTemp("", "throttled-bench-")
	if err != nil {
		return nil, err
	}
	return (&process{dir: dir}).launch(line, args...)
}

// buildServer builds the server with release flags.
func buildServer(binary string) error {
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, "./cmd/throttled")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}

// launch runs a command line on a free port, with its data in p.dir, and waits until the server is ready. If it fails, it
// stops the process.
func (p *process) launch(line []string, args ...string) (*process, error) {
	line = append(slices.Clone(line), "--port", "0", "--dir", p.dir)
	line = append(line, args...)
	p.cmd = exec.Command(line[0], line[1:]...)
	logs, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	begin := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	lines := bufio.NewReader(logs)
	if p.addr, err = awaitReady(lines); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	p.took = time.Since(begin)
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	return p, nil
}

// awaitReady reads the log up to the line with the address of the ready server.
func awaitReady(log *bufio.Reader) (addr string, err error) {
	logText := ""
	for {
		line, err := log.ReadString('\n')
		if found := readyAddress.FindStringSubmatch(line); found != nil {
			return found[1], nil
		}
		logText += line
		if err != nil {
			return "", fmt.Errorf("the server exited with the log %q: %w", logText, err)
		}
	}
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// stop stops the server with SIGTERM, and removes the binary.
func (p *process) stop() error {
	var err error
	if p.cmd != nil && p.cmd.Process != nil {
		err = errors.Join(p.cmd.Process.Signal(syscall.SIGTERM), p.cmd.Wait())
	}
	return errors.Join(err, os.RemoveAll(p.dir))
}

// kill kills the server, and removes the binary.
func (p *process) kill() error {
	err := p.cmd.Process.Kill()
	_ = p.cmd.Wait() // the error is that the process was killed
	return errors.Join(err, os.RemoveAll(p.dir))
}

// cpuSeconds returns the CPU time of a process, in user and in kernel mode.
func cpuSeconds(pid int) (float64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseCPU(string(stat))
}

const ticksPerSecond = 100 // unit of CPU times in /proc; the same on every Linux that Go supports

// parseCPU reads fields 14 and 15 of /proc/PID/stat. The second field is a name in parentheses that
// may contain any character.
func parseCPU(stat string) (float64, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("short stat: %q", stat)
	}
	user, err := strconv.ParseFloat(fields[11], 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseFloat(fields[12], 64)
	return (user + system) / ticksPerSecond, err
}

// residentBytes returns the RSS of a process.
func residentBytes(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	return parseResident(string(status))
}

func parseResident(status string) (int64, error) {
	for line := range strings.Lines(status) {
		if value, found := strings.CutPrefix(line, "VmRSS:"); found {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("no VmRSS")
}

// pidOf returns the id of the process that listens on an address of this machine.
func pidOf(addr string) (int, error) {
	_, port, _ := strings.Cut(addr, ":")
	out, err := exec.Command("redis-cli", "-p", port, "INFO", "server").Output()
	if err != nil {
		return 0, fmt.Errorf("INFO of %s: %w", addr, err)
	}
	return parsePID(string(out))
}

func parsePID(info string) (int, error) {
	for line := range strings.Lines(info) {
		if value, found := strings.CutPrefix(line, "process_id:"); found {
			return strconv.Atoi(strings.TrimSpace(value))
		}
	}
	return 0, errors.New("INFO has no process_id")
}
