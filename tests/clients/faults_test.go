package clienttests

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/throttledhq/throttled/internal/procpause"
)

// openAndPing opens a client, sends a PING, and returns the first error.
func openAndPing(t *testing.T, lib library, addr string, s settings) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := lib.open(ctx, addr, s)
	if err != nil {
		return err
	}
	_, err = c.do(ctx, "PING")
	return errors.Join(err, c.close())
}

func TestAuthentication(t *testing.T) {
	eachLibrary(t, func(t *testing.T, lib library) {
		srv := start(t, "secret")
		srv.allow(`level=WARN msg="wrong password"`)
		for _, protocol := range append([]int{0}, lib.others...) {
			for _, test := range []struct{ user, password, want string }{
				{"", "", "NOAUTH "},
				{"", "wrong", "WRONGPASS invalid username-password pair or user is disabled."},
				{"default", "wrong", "WRONGPASS invalid username-password pair or user is disabled."},
				{"stranger", "secret", "WRONGPASS invalid username-password pair or user is disabled."},
				{"", "secret", ""},
				{"default", "secret", ""},
			} {
				s := settings{protocol: protocol, user: test.user, password: test.password}
				err := openAndPing(t, lib, srv.addr, s)
				if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
					t.Errorf("RESP%d, user %q, password %q: got the error %v, want %q", protocol, test.user, test.password, err, test.want)
				}
			}
		}
	})
}

// TestNeedlessPassword tests a client with a password against a server without one. As in
// Redis, AUTH returns an error, and HELLO accepts any password.
func TestNeedlessPassword(t *testing.T) {
	eachLibrary(t, func(t *testing.T, lib library) {
		srv := start(t, "")
		err := openAndPing(t, lib, srv.addr, settings{password: "needless"})
		if want := "AUTH <password> called without any password configured"; lib.protocol == 2 {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got the error %v, want %q", err, want)
			}
		} else if err != nil {
			t.Error(err)
		}
	})
}

// TestRestart checks that calls fail while the server is down, and that the same client
// succeeds once another server is running at the same address.
func TestRestart(t *testing.T) {
	eachVariant(t, func(t *testing.T, lib library, s settings) {
		b := connect(t, lib, s)
		throttle := func(ctx context.Context) (decision, error) {
			return numbers(b.do(ctx, "CL.THROTTLE", "key", "9", "1", hour))
		}
		if d, err := throttle(t.Context()); err != nil || d.remaining() != 9 {
			t.Fatalf("before the restart: got %v, want 9 remaining; error %v", d, err)
		}
		b.server.stop(t)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if d, err := throttle(ctx); err == nil {
			t.Fatalf("no error without a server: got %v", d)
		}
		startOn(t, b.server.port(t), s.password)
		eventually(t, func(ctx context.Context) error {
			d, err := throttle(ctx)
			if err == nil && d.remaining() != 9 {
				t.Errorf("after the restart: got %v, want 9 remaining, as on a new key", d)
			}
			return err
		})
	})
}

// pause stops the process with SIGSTOP, and waits until all of its threads are stopped. SIGCONT
// resumes it.
func (s *server) pause(t *testing.T) {
	t.Helper()
	s.signal(t, syscall.SIGSTOP)
	eventually(t, func(context.Context) error { return procpause.Check(s.process.Process.Pid) })
}

// TestContext checks that a call to an unresponsive server returns when its context is
// done, and that no later call receives the reply to the abandoned call.
func TestContext(t *testing.T) {
	eachVariant(t, func(t *testing.T, lib library, s settings) {
		s.obeyContext = true
		b := connect(t, lib, s)
		if _, err := b.do(t.Context(), "PING"); err != nil {
			t.Fatal(err)
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := b.do(cancelled, "ECHO", "cancelled before"); !errors.Is(err, context.Canceled) {
			t.Errorf("call with a canceled context: got the error %v, want context canceled", err)
		}

		b.server.pause(t)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if v, err := b.do(ctx, "ECHO", "abandoned"); err == nil || time.Since(began) > patience/2 {
			t.Errorf("call to a paused server: after %v got %v, error %v; want a timeout after 50ms", time.Since(began), v, err)
		}
		b.server.signal(t, syscall.SIGCONT)

		for i := range 3 * poolSize {
			want := strconv.Itoa(i)
			eventually(t, func(ctx context.Context) error {
				v, err := b.do(ctx, "ECHO", want)
				if err == nil && v != want {
					return fmt.Errorf("ECHO %s returns %v", want, v)
				}
				return err
			})
		}
	})
}
