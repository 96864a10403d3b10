package sdnotify

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// patience is the time after which a test fails; it is never reached otherwise.
const patience = time.Minute

// supervisor is the receiving end of the protocol.
type supervisor struct {
	t    *testing.T
	conn *net.UnixConn
}

// listen opens the socket of a supervisor.
func listen(t *testing.T, address string) supervisor {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return supervisor{t, conn}
}

// receive returns the next datagram.
func (s supervisor) receive() string {
	s.t.Helper()
	if err := s.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
	b := make([]byte, 1024)
	n, err := s.conn.Read(b)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b[:n])
}

// environment returns a function like os.LookupEnv for the variables in env.
func environment(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}
}

func TestNew(t *testing.T) {
	for _, tc := range []struct {
		env      map[string]string
		socket   string
		interval time.Duration
		err      error
	}{
		{nil, "", 0, nil},
		{map[string]string{"WATCHDOG_USEC": "2000000"}, "", 0, nil},
		{map[string]string{"NOTIFY_SOCKET": ""}, "", 0, nil},
		{map[string]string{"NOTIFY_SOCKET": "/run/systemd/notify"}, "/run/systemd/notify", 0, nil},
		{map[string]string{"NOTIFY_SOCKET": "@abstract", "WATCHDOG_USEC": "2000000"}, "@abstract", time.Second, nil},
		{map[string]string{"NOTIFY_SOCKET": "/s", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "77"}, "/s", 1500 * time.Millisecond, nil},
		{map[string]string{"NOTIFY_SOCKET": "/s", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "78"}, "/s", 0, nil},
		{map[string]string{"NOTIFY_SOCKET": "vsock:2:1234"}, "", 0, ErrSocket},
		{map[string]string{"NOTIFY_SOCKET": "relative"}, "", 0, ErrSocket},
		{map[string]string{"NOTIFY_SOCKET": "/s", "WATCHDOG_USEC": "0"}, "", 0, ErrWatchdog},
		{map[string]string{"NOTIFY_SOCKET": "/s", "WATCHDOG_USEC": "-1"}, "", 0, ErrWatchdog},
		{map[string]string{"NOTIFY_SOCKET": "/s", "WATCHDOG_USEC": "30s"}, "", 0, ErrWatchdog},
		{map[string]string{"NOTIFY_SOCKET": "/s", "WATCHDOG_USEC": "9223372036854775807"}, "", 0, ErrWatchdog},
	} {
		n, err := New(environment(tc.env), 77)
		if n.socket != tc.socket || n.interval != tc.interval || !errors.Is(err, tc.err) {
			t.Errorf("%v: socket %q, interval %v, error %v; want %q, %v, %v", tc.env, n.socket, n.interval, err, tc.socket, tc.interval, tc.err)
		}
	}
}

// TestSend checks that each state is received as one datagram, through a socket in a directory and an abstract one.
func TestSend(t *testing.T) {
	for _, address := range []string{filepath.Join(t.TempDir(), "notify"), fmt.Sprintf("@throttled-sdnotify-%d", os.Getpid())} {
		s := listen(t, address)
		n := Notifier{socket: address}
		for state, want := range map[State]string{Ready: "READY=1", Reloading: "RELOADING=1", Stopping: "STOPPING=1"} {
			if err := n.Send(state); err != nil {
				t.Fatal(err)
			}
			if got := s.receive(); got != want {
				t.Errorf("%s: received %q, want %q", address, got, want)
			}
		}
	}
}

func TestSend_Unreachable(t *testing.T) {
	if err := (Notifier{}).Send(Ready); err != nil {
		t.Errorf("without a supervisor: error %v, want none", err)
	}
	if err := (Notifier{socket: filepath.Join(t.TempDir(), "missing")}).Send(Ready); err == nil {
		t.Error("no error although there is no socket")
	}
}

// TestSend_FullQueue checks that Send fails, and does not block, if the supervisor does not read its socket.
func TestSend_FullQueue(t *testing.T) {
	address := filepath.Join(t.TempDir(), "notify")
	listen(t, address)
	n := Notifier{socket: address}
	for begin := time.Now(); n.Send(Ready) == nil; {
		if time.Since(begin) > patience {
			t.Fatal("no error although nothing is read")
		}
	}
}

// TestRunWatchdog checks that messages are sent only after checks that have succeeded, and none while a check hangs.
func TestRunWatchdog(t *testing.T) {
	address := filepath.Join(t.TempDir(), "notify")
	s := listen(t, address)
	n := Notifier{socket: address, interval: time.Millisecond}
	ctx, cancel := context.WithCancel(t.Context())
	checking, results := make(chan struct{}), make(chan error)
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.RunWatchdog(ctx, func() error {
			checking <- struct{}{}
			return <-results
		})
	}()
	<-checking
	results <- nil
	if got := s.receive(); got != "WATCHDOG=1" {
		t.Errorf("received %q after a check, want WATCHDOG=1", got)
	}
	<-checking
	results <- errors.New("the check fails")
	<-checking // hangs now
	if err := s.conn.SetReadDeadline(time.Now().Add(50 * n.interval)); err != nil {
		t.Fatal(err)
	}
	if length, err := s.conn.Read(make([]byte, 100)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("received %d bytes, error %v, after a failed check and while a check hangs; want nothing", length, err)
	}
	cancel()
	results <- nil
	if got := s.receive(); got != "WATCHDOG=1" {
		t.Errorf("received %q after the check has returned, want WATCHDOG=1", got)
	}
	<-done
}

// TestRunWatchdog_None checks that no check is made without a watchdog.
func TestRunWatchdog_None(t *testing.T) {
	Notifier{socket: "/nowhere"}.RunWatchdog(t.Context(), func() error {
		t.Error("a check is made")
		return nil
	})
}
