package server

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/ruleset"
	"github.com/throttledhq/throttled/ruleset/counts"
)

// counted returns the counters of a store that are not 0, such as "d/login refused=2 admitted=1".
func counted(store *ruleset.Store) string {
	var all []string
	for _, row := range store.Counts().Rows() {
		text := row.Domain + "/" + row.Limit
		for o := counts.Outcomes - 1; o >= 0; o-- {
			if n := row.Counts[o]; n > 0 {
				text += fmt.Sprintf(" %s=%d", counts.Outcome(o), n)
			}
		}
		if strings.Contains(text, "=") {
			all = append(all, text)
		}
	}
	return strings.Join(all, ", ")
}

// TestLimitCounts checks the counters of limits after pipelines of commands.
func TestLimitCounts(t *testing.T) {
	t.Parallel()
	const limits = `
default: {allow: 1 per 1h}
limits:
  one: {when: {a: x}, allow: 1 per 1h, algorithm: fixed}
  many: {when: {a: x}, allow: 9 per 1h}
  shadow: {when: {a: x}, allow: 1 per 1h, shadow: true}
  soft: {when: {s: x}, allow: 2 per 1h, soft: 50%}
  several: {when: {v: x}, allow: [1 per 1m, 100 per 1d]}
  stop: {when: {stop: x}, allow: none}
  free: {when: {free: x}, allow: unlimited}
  tokens: {when: {k: x}, allow: 9 per 9s, cost: tokens, shadow: true}
  ban: {when: {b: x}, allow: 1 per 1m, ban: {after: 1 per 1h, for: 1h}}
`
	for _, c := range []struct{ name, lines, want string }{
		{"admitted and refused", "CL.CHECK d a x|CL.CHECK d a x|CL.CHECK d a x", "d/many admitted=3, d/one refused=2 admitted=1, d/shadow shadow_refused=2 admitted=1"},
		{"default", "CL.CHECK d z x|CL.CHECK d z x", "d/ refused=1 admitted=1"},
		{"soft", "CL.CHECK d s x|CL.CHECK d s x|CL.CHECK d s x|CL.CHECK d s x", "d/soft refused=1 soft=1 admitted=2"},
		{"several amounts", "CL.CHECK d v x|CL.CHECK d v x", "d/several refused=1 admitted=1"},
		{"none and unlimited", "CL.CHECK d stop x|CL.CHECK d free x", "d/free admitted=1, d/stop refused=1"},
		{"error of a shadow limit", "CL.CHECK d k x", "d/ admitted=1, d/tokens error=1"},
		{"ban", "CL.CHECK d b x|CL.CHECK d b x|CL.CHECK d b x|CL.CHECK d b x", "d/ban banned=2 refused=1 admitted=1"},
		{"no charge", "CL.CHECK d PEEK a x|CL.CHECK d DRYRUN a x|CL.CHECK d COST -1 a x|CL.REPORT d OUTCOME status=401 a x", ""},
		{"errors", "CL.CHECK e a x|CL.CHECK d a|CL.CHECK d COST x a x", ""},
		{"transaction", "MULTI|CL.CHECK d a x|PING|CL.CHECK d a x|EXEC", "d/many admitted=2, d/one refused=1 admitted=1, d/shadow shadow_refused=1 admitted=1"},
		{"different requests in one batch", "CL.CHECK d a x|CL.CHECK d s x|CL.CHECK d a x|CL.CHECK d s x", "d/many admitted=2, d/one refused=1 admitted=1, d/shadow shadow_refused=1 admitted=1, d/soft admitted=2"},
	} {
		s := startRules(t, limits)
		p := s.dial()
		lines := strings.Split(c.lines, "|")
		var pipeline strings.Builder
		for _, line := range lines {
			pipeline.WriteString(request(words(line)...))
		}
		if strings.HasPrefix(c.name, "ban") { // the requests of one batch are decided before a ban begins
			for _, line := range lines {
				p.ask(words(line)...)
			}
			lines = nil
		} else {
			p.send(pipeline.String())
		}
		for range lines {
			p.read()
		}
		p.ask("PING") // the batch has been counted before the next command runs
		if got := counted(s.rules.store); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// TestManyLimitCounts checks a request with more limits than limitTallies collects.
func TestManyLimitCounts(t *testing.T) {
	t.Parallel()
	var limits, want strings.Builder
	limits.WriteString("\nlimits:\n")
	for i := range 20 {
		fmt.Fprintf(&limits, "  l%02d: {allow: 9 per 1h}\n", i)
		fmt.Fprintf(&want, "d/l%02d admitted=2, ", i)
	}
	s := startRules(t, limits.String())
	p := s.dial()
	p.send(strings.Repeat(request(words("CL.CHECK d a x")...), 2))
	p.read()
	p.read()
	p.ask("PING")
	if got := counted(s.rules.store) + ", "; got != want.String() {
		t.Errorf("got %s, want %s", got, want.String())
	}
}

// TestLimitCountsOnFailure checks the counters of a node without a leader.
func TestLimitCountsOnFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := startFailureLab(t)
		a := l.nodes["a"]
		a.rules.local = buckets.New(buckets.Config{Clock: l.clock.read, Shards: 8})
		p := a.at(a.clients)
		for _, line := range []string{
			"CL.CHECK d a x", "CL.CHECK d PEEK a x", "CL.CHECK d b x", "CL.CHECK d c x", "CL.CHECK d z x", "CL.CHECK e z x", "CL.CHECK d stop x",
			"CL.CHECK d l x ip 1", "CL.CHECK d l x ip 1", "CL.CHECK d l x ip 1", "CL.CHECK d l x ip 1", "CL.CHECK f a x",
		} {
			p.ask(words(line)...)
		}
		const want = "d/ fail_open=1, d/jitter fail_closed=1, d/local local_refused=1 local=3, d/login fail_closed=1, " +
			"d/open fail_open=1, d/stop refused=1, e/ fail_open=1"
		if got := counted(l.rules); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// TestCountsOfNewRules checks that a limit keeps its counters when the rules change.
func TestCountsOfNewRules(t *testing.T) {
	t.Parallel()
	s := startRules(t, "\nlimits:\n  a: {allow: 9 per 1h}\n  b: {allow: 9 per 1h}\n")
	p := s.dial()
	p.ask(words("CL.CHECK d x y")...)
	setRules(t, s.rules.store, "version: 1\ndomain: d\nlimits:\n  c: {allow: 9 per 1h}\n  b: {allow: 9 per 1h}\n")
	p.ask(words("CL.CHECK d x y")...)
	p.ask("PING")
	if got, want := counted(s.rules.store), "d/a admitted=1, d/b admitted=2, d/c admitted=1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
