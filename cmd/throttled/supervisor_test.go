package main

import (
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/throttledhq/throttled/internal/sdnotify"
)

// systemd receives the states that a process reports, in place of the service manager.
type systemd struct {
	t      *testing.T
	socket string
	states chan string
}

// startSystemd opens the socket of a service manager.
func startSystemd(t *testing.T) *systemd {
	t.Helper()
	s := &systemd{t: t, socket: filepath.Join(t.TempDir(), "notify"), states: make(chan string, 1000)}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	received := make(chan struct{})
	go func() {
		defer close(received)
		for b := make([]byte, 1024); ; {
			n, err := conn.Read(b)
			if err != nil {
				return // closed at the end of the test
			}
			s.states <- string(b[:n])
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-received
	})
	return s
}

// environ returns the environment of a supervised process. A watchdog of 0 means none.
func (s *systemd) environ(watchdog time.Duration) []string {
	env := []string{"NOTIFY_SOCKET=" + s.socket}
	if watchdog > 0 {
		env = append(env, "WATCHDOG_USEC="+strconv.FormatInt(watchdog.Microseconds(), 10))
	}
	return env
}

// wants waits for the next state other than that of the watchdog.
func (s *systemd) wants(want sdnotify.State) {
	s.t.Helper()
	for end := time.After(patience); ; {
		select {
		case got := <-s.states:
			if got == "WATCHDOG=1" {
				continue
			}
			if got != string(want) {
				s.t.Errorf("the process reports %q, want %q", got, want)
			}
			return
		case <-end:
			s.t.Fatalf("the process does not report %q", want)
		}
	}
}

// nothing fails the test if a state has been received.
func (s *systemd) nothing(when string) {
	s.t.Helper()
	select {
	case got := <-s.states:
		s.t.Errorf("the process reports %q %s; want nothing", got, when)
	default:
	}
}

// alive waits for n reports to the watchdog.
func (s *systemd) alive(n int) {
	s.t.Helper()
	for end := time.After(patience); n > 0; {
		select {
		case got := <-s.states:
			if got == "WATCHDOG=1" {
				n--
			}
		case <-end:
			s.t.Fatal("the process does not report to the watchdog")
		}
	}
}

// drain drops the states that have been received.
func (s *systemd) drain() {
	for len(s.states) > 0 {
		<-s.states
	}
}

// alone returns a standalone server that has not been started, supervised with the given watchdog.
func (s *systemd) alone(watchdog time.Duration) *process {
	p := &process{t: s.t, id: "server", addr: freeAddr(s.t), env: s.environ(watchdog)}
	port := portOf(p.addr)
	p.args = []string{"--port", port, "--dir", s.t.TempDir()}
	return p
}

func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// TestProcess_Notify checks the states that a server reports during its start, a reload and its stop.
func TestProcess_Notify(t *testing.T) {
	s := startSystemd(t)
	p := s.alone(0)
	p.start()
	s.wants(sdnotify.Ready)
	p.askUntil("[0 ", "CL.THROTTLE", "k", 0, 1, "1h")
	p.signal(syscall.SIGHUP)
	s.wants(sdnotify.Reloading)
	s.wants(sdnotify.Ready)
	s.nothing("after a reload")
	p.signal(syscall.SIGTERM)
	s.wants(sdnotify.Stopping)
	if code, _ := p.waitExit(patience); code != exitOK {
		t.Errorf("exit code %d, want 0:\n%s", code, p.log)
	}
	s.nothing("after its stop")
}

// TestProcess_NotifyShutdown checks that a stop by a client is reported.
func TestProcess_NotifyShutdown(t *testing.T) {
	s := startSystemd(t)
	p := s.alone(0)
	p.start()
	s.wants(sdnotify.Ready)
	conn, err := net.Dial("tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("SHUTDOWN NOSAVE\r\n")); err != nil {
		t.Fatal(err)
	}
	s.wants(sdnotify.Stopping)
}

// TestProcess_NotifyReady checks that a node of a cluster is not ready before the cluster has a leader, also if it
// reloads its files before.
func TestProcess_NotifyReady(t *testing.T) {
	s := startSystemd(t)
	all := prepareProcesses(t, []string{"n1", "n2", "n3"}, func(string) []string { return []string{"--raft-insecure", "yes"} })
	all[0].env = s.environ(0)
	all[0].start()
	all[1].start()
	all[0].askUntil("PONG", "PING")
	all[0].signal(syscall.SIGHUP)
	all[0].waitLog("reloaded")
	s.nothing("before the third node of a new cluster has started")
	all[2].start()
	s.wants(sdnotify.Ready)
	all[0].askUntil("[0 ", "CL.THROTTLE", "k", 0, 1, "1h")
}

// TestProcess_Watchdog checks that a server reports to the watchdog until it hangs, and again when it continues.
func TestProcess_Watchdog(t *testing.T) {
	const watchdog = 100 * time.Millisecond
	s := startSystemd(t)
	p := s.alone(watchdog)
	p.start()
	s.wants(sdnotify.Ready)
	s.alive(3)
	p.signal(syscall.SIGSTOP)
	if _, err := syscall.Wait4(p.cmd.Process.Pid, nil, syscall.WUNTRACED, nil); err != nil { // returns when it is stopped
		t.Fatal(err)
	}
	s.drain()
	select {
	case got := <-s.states:
		t.Errorf("the process reports %q while it is stopped", got)
	case <-time.After(2 * watchdog): // systemd would restart the process
	}
	p.signal(syscall.SIGCONT)
	s.alive(3)
}

// TestProcess_Aborted checks the exit after SIGABRT, which systemd sends when the watchdog expires. The unit sets
// GOTRACEBACK, so that this exit, and the exit after a panic, differ from the exit with code 2 for invalid options,
// after which systemd does not restart the server. The goroutines are printed for the log.
func TestProcess_Aborted(t *testing.T) {
	s := startSystemd(t)
	p := s.alone(0)
	p.env = append(p.env, "GOTRACEBACK=crash")
	p.start()
	s.wants(sdnotify.Ready)
	p.signal(syscall.SIGABRT)
	err := p.cmd.Wait()
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if exit := new(exec.ExitError); !errors.As(err, &exit) || !ok || !status.Signaled() || status.Signal() != syscall.SIGABRT {
		t.Errorf("the process exits with %v, want the signal SIGABRT", err)
	}
	if !strings.Contains(p.log.String(), "goroutine ") {
		t.Errorf("the goroutines are not printed:\n%s", p.log)
	}
}

// TestSupervise_Invalid checks that a server with an invalid socket of systemd runs, and logs the problem.
func TestSupervise_Invalid(t *testing.T) {
	p := &process{t: t, id: "server", addr: freeAddr(t), env: []string{"NOTIFY_SOCKET=relative"}}
	port := portOf(p.addr)
	p.args = []string{"--port", port, "--dir", t.TempDir()}
	p.start()
	p.waitLog("NOTIFY_SOCKET must be an absolute path")
	p.askUntil("[0 ", "CL.THROTTLE", "k", 0, 1, "1h")
}
