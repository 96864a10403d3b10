package sidecar

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/topology"
)

const refusedDraw = replyError("NOPERM this user has no permissions to run the 'cl.lease' command")

// TestDraws_Record checks that the error reply to a draw is recorded until a draw is accepted, and that an error is logged once.
func TestDraws_Record(t *testing.T) {
	const temporary, unknown = replyError("LOADING no leader"), replyError("ERR unknown command 'CL.LEASE'")
	var log bytes.Buffer
	u := New(Config{Credentials: Credentials{User: "app"}})
	d := draws{Commands: &Commands{Upstream: u}, log: slog.New(slog.NewTextHandler(&log, nil)), lines: newLines()}
	for i, step := range []struct {
		reply any
		want  replyError // the recorded error
		lines int        // of the log
	}{
		{[]any{}, "", 0},
		{temporary, "", 0},
		{refusedDraw, refusedDraw, 1},
		{temporary, refusedDraw, 1},
		{refusedDraw, refusedDraw, 1},
		{[]any{}, "", 1},
		{refusedDraw, refusedDraw, 1},
		{unknown, unknown, 2},
		{refusedDraw, refusedDraw, 2},
		{unknown, unknown, 2},
	} {
		d.record(step.reply)
		if got, lines := d.lastError(), strings.Count(log.String(), "\n"); got != string(step.want) || lines != step.lines {
			t.Errorf("step %d: the error is %q after %d lines of the log, want %q after %d; the log:\n%s", i, got, lines, step.want, step.lines, &log)
		}
	}
	if n := strings.Count(log.String(), "user=app "); n != 2 {
		t.Errorf("%d lines have the user, want 2:\n%s", n, &log)
	}
}

// TestDraws_Do checks that replies to draws are recorded with the user on the upstream, and those to returns are not.
func TestDraws_Do(t *testing.T) {
	n := newNode(t)
	n.answer("-" + string(refusedDraw))
	u := run(t, Config{Addresses: []string{n.addr()}})
	u.await(t, n.addr())
	d := draws{Commands: &Commands{Upstream: u}, log: slog.New(slog.DiscardHandler), lines: newLines()}
	defer d.Close()
	for _, step := range []struct{ command, want string }{{"CL.LEASE.RETURN", ""}, {"CL.LEASE", "NOPERM the upstream user default has no permissions to run the 'cl.lease' command"}} {
		if _, err := d.Do(t.Context(), [][]string{{step.command, "1"}}); err != nil || d.lastError() != step.want {
			t.Errorf("%s: the recorded error is %q, want %q; Do returns the error %v", step.command, d.lastError(), step.want, err)
		}
	}
}

// TestDraws_ConnRefused checks that a refused connection is an error of the call, which the sidecar counts, and not the reply to
// a draw: requests would be forwarded for a long time after it.
func TestDraws_ConnRefused(t *testing.T) {
	const refusal = "ERR max number of clients reached"
	n := newNode(t)
	u := run(t, Config{Addresses: []string{n.addr()}})
	u.await(t, n.addr())
	n.fill(refusal)
	d := draws{Commands: &Commands{Upstream: u}, log: slog.New(slog.DiscardHandler), lines: newLines()}
	defer d.Close()
	failures := u.Upstream().Failures
	for call := range 2 { // the second call is within the pause after the first one
		replies, err := d.Do(t.Context(), [][]string{{"CL.LEASE", "1"}})
		if refused := new(topology.ConnRefusedError); !errors.As(err, &refused) || refused.Node != n.addr() || refused.Err.Error() != refusal {
			t.Errorf("call %d: the error is %v, want the refusal of %s", call, err, n.addr())
		}
		if len(replies) != 0 || d.lastError() != "" {
			t.Errorf("call %d: the replies are %v and the recorded error is %q, want none", call, replies, d.lastError())
		}
	}
	if got := u.Upstream().Failures - failures; got != 1 {
		t.Errorf("%d failures are counted, want 1 for the connection", got)
	}
}
