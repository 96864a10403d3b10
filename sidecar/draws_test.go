package sidecar

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
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
