// Package sdnotify reports the state of the process to systemd, by the protocol of sd_notify(3).
//
// [New] reads the environment that systemd sets for a service of Type=notify. A [Notifier] sends each state as one
// datagram to the socket that the environment names. The zero value, for a process without such a supervisor, sends
// nothing. RELOADING=1 is sent without MONOTONIC_USEC, so a unit must use Type=notify and not Type=notify-reload.
package sdnotify

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// State is a message to the supervisor.
type State string

// The states of a process.
const (
	Ready     State = "READY=1"     // the start, or a reload, is complete
	Reloading State = "RELOADING=1" // the process reads its configuration again; Ready must follow
	Stopping  State = "STOPPING=1"  // the process is about to exit
	alive     State = "WATCHDOG=1"
)

// Errors of New.
var (
	ErrSocket   = errors.New("NOTIFY_SOCKET must be an absolute path, or begin with @")
	ErrWatchdog = errors.New("WATCHDOG_USEC must be a positive number of microseconds")
)

// sendTimeout limits the time of sending one state.
const sendTimeout = time.Second

// Notifier sends states of this process to its supervisor. It may be used concurrently.
type Notifier struct {
	socket   string        // empty: there is no supervisor
	interval time.Duration // time between two messages to the watchdog; 0: there is no watchdog
}

// New returns the Notifier for the environment of the process pid. The error is ErrSocket or ErrWatchdog; the
// Notifier then sends nothing.
func New(lookupEnv func(string) (string, bool), pid int) (Notifier, error) {
	socket, _ := lookupEnv("NOTIFY_SOCKET")
	if socket == "" {
		return Notifier{}, nil
	}
	if !strings.HasPrefix(socket, "/") && !strings.HasPrefix(socket, "@") {
		return Notifier{}, ErrSocket
	}
	interval, err := watchdogInterval(lookupEnv, pid)
	if err != nil {
		return Notifier{}, err
	}
	return Notifier{socket, interval}, nil
}

// watchdogInterval returns half of the timeout of the watchdog, as sd_watchdog_enabled(3) recommends. It returns 0 if
// there is no watchdog, or if it watches another process.
func watchdogInterval(lookupEnv func(string) (string, bool), pid int) (time.Duration, error) {
	text, ok := lookupEnv("WATCHDOG_USEC")
	if watched, set := lookupEnv("WATCHDOG_PID"); !ok || set && watched != strconv.Itoa(pid) {
		return 0, nil
	}
	const most = int64(time.Hour/time.Microsecond) * 24 * 365
	usec, err := strconv.ParseInt(text, 10, 64)
	if err != nil || usec <= 0 || usec > most {
		return 0, ErrWatchdog
	}
	return time.Duration(usec) * time.Microsecond / 2, nil
}

// Send sends a state. It returns an error if the supervisor does not receive the state within a second.
func (n Notifier) Send(s State) error {
	if n.socket == "" {
		return nil
	}
	conn, err := net.Dial("unixgram", n.socket)
	if err != nil {
		return fmt.Errorf("notify the supervisor: %w", err)
	}
	defer func() { _ = conn.Close() }() // a datagram is sent or not; nothing is buffered
	if err := conn.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return fmt.Errorf("notify the supervisor: %w", err)
	}
	if _, err := conn.Write([]byte(s)); err != nil {
		return fmt.Errorf("notify the supervisor of %s: %w", s, err)
	}
	return nil
}

// RunWatchdog calls check at each interval of the watchdog, and reports that the process is running after each check that
// returns nil, until ctx is done. While a check does not return, nothing is sent, so the supervisor restarts a process
// that hangs. RunWatchdog returns immediately if there is no watchdog. Errors of sending are ignored: the watchdog then
// expires.
func (n Notifier) RunWatchdog(ctx context.Context, check func() error) {
	if n.interval == 0 {
		return
	}
	ticker := time.NewTicker(n.interval)
	defer ticker.Stop()
	for ctx.Err() == nil { // also if the ticker has fired
		if check() == nil {
			_ = n.Send(alive)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
