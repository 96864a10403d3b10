package sidecar

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/ruleset"
)

const rulesText = "version: 1\ndomain: shop\nlimits: {api: {allow: 5 per minute}}\n"

// TestRules_Follow makes the rules of an upstream active, and keeps the last valid ones if the upstream sends anything else.
func TestRules_Follow(t *testing.T) {
	n := newNode(t)
	u := run(t, Config{Addresses: []string{n.addr()}, Timeout: time.Second})
	u.await(t, n.addr())
	r := &Rules{Commands: &Commands{Upstream: u}, Store: ruleset.NewStore(), Log: slog.New(slog.DiscardHandler)}
	defer r.Commands.Close()
	bulk := func(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }
	history := func(version int, hash string) string {
		return fmt.Sprintf("*1\r\n*4\r\n%s:%d\r\n%s%s", bulk("version"), version, bulk("hash"), bulk(hash))
	}
	follow := func(replies ...string) error {
		t.Helper()
		for _, reply := range replies {
			n.answer(strings.TrimSuffix(reply, "\r\n"))
			if err := r.follow(t.Context()); err != nil {
				return err
			}
		}
		return nil
	}
	if err := follow("*0\r\n"); err != nil || r.Store.Active().Set != nil || u.RulesKnown() {
		t.Errorf("an upstream without rules: got error %v, want none, and no rules", err)
	}
	if err := follow("-NOPERM no\r\n"); !errors.As(err, new(replyError)) {
		t.Errorf("got error %v, want that of the upstream", err)
	}
	for _, reply := range []string{"+OK\r\n", "*1\r\n:1\r\n", history(0, "x"), history(7, ""), history(7, "another hash")} {
		if err := follow(reply); err == nil {
			t.Errorf("%q: no error", reply)
		}
	}
	p, err := r.Store.Prepare(t.Context(), ruleset.Proposal{Name: "x", Text: rulesText}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	p.Version.Number = 7
	if !r.Store.Adopt(p.Version, p.Packed) || r.Store.Active().Version != 7 {
		t.Errorf("the active version is %d, want 7", r.Store.Active().Version)
	}
	if r.Store.Adopt(p.Version, p.Packed) {
		t.Error("a version that is not prepared was adopted")
	}
	if u.RulesKnown() {
		t.Error("the rules are known before the upstream has confirmed them")
	}
	if err := follow(history(9, strings.ToLower(ruleset.HashOf(rulesText)))); err != nil || r.Store.Active().Version != 7 {
		t.Errorf("the same text under another number: error %v, version %d; want none and 7", err, r.Store.Active().Version)
	}
	if !u.RulesKnown() {
		t.Error("the rules are not known after the upstream has confirmed them")
	}
	u.confirmed.Add(-int64(rulesAge))
	for _, reply := range []string{"-NOPERM no\r\n", "*0\r\n", history(10, "a text that the upstream does not send")} {
		if _ = follow(reply); u.RulesKnown() {
			t.Errorf("%q: the rules are known although the upstream no longer confirms them", reply)
		}
	}
}

func TestIntervalAfter(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want time.Duration
	}{
		{nil, rulesInterval},
		{errAway, rulesInterval},
		{replyError("LOADING the cluster has no leader"), rulesInterval},
		{replyError("NOPERM User app has no permissions to run the 'cl.rules|history' command"), refusedInterval},
		{fmt.Errorf("rules: %w", replyError("NOPERM no")), refusedInterval},
	} {
		if got := intervalAfter(tt.err); got != tt.want {
			t.Errorf("after %v: %v, want %v", tt.err, got, tt.want)
		}
	}
}
