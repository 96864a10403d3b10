package server

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/limiter"
)

// fuzzRules has limits with all features that affect the requests of CL.CHECK.
const fuzzRules = `
version: 1
domain: d
default: {allow: 5 per 5s, per: [ip]}
limits:
  a: {when: {a: x}, per: [ip], allow: [10 per 10s, 100 per 1m], soft: 10%, ban: {after: 3 per 1h, for: 1h}}
  b: {when: {b: x}, allow: 5 per 1m, algorithm: fixed, charge: {status: [401, 403]}, consistency: async}
  c: {when: {c: x}, per: [ip, user], allow: [5 per 1m, 50 per 1h], shadow: true, cost: size}
  n: {when: {n: x}, allow: none}
  u: {when: {u: x}, allow: unlimited, ban: {after: 3 per 1h, for: 1h}}
---
version: 1
domain: e
semantics: envoy
limits:
  a: {when: {a: x}, per: [ip], allow: 10 per 1m, algorithm: fixed}
  b: {when: {b: x}, allow: 5 per 1h, algorithm: fixed, charge: {status: 401}}
`

// FuzzCheck parses arbitrary words as CL.CHECK or CL.REPORT. An error must have an error reply. Otherwise the requests
// must fit in a batch, and form groups that the engine accepts. The word "--" before the first attribute must not change
// the result.
func FuzzCheck(f *testing.F) {
	for _, line := range []string{
		"CL.CHECK d", "CL.CHECK d a x ip ::1", "CL.CHECK d COST 2 MS PEEK DRYRUN a x b x c x n x u x size 7 ip 1 user 2",
		"CL.CHECK d -- peek a x", "CL.CHECK d -- -- x a x", "CL.CHECK d cost 9223372036854775807 c x size 9223372036854775807",
		"CL.CHECK d COST -9223372036854775808 c x size 9223372036854775807", "CL.CHECK d COST", "CL.CHECK d PEEK PEEK", "CL.CHECK f a x",
		"CL.CHECK d c x", "CL.CHECK d a x a x", "CL.CHECK e a x b x", "CL.CHECK e COST 0 a x", "CL.REPORT d OUTCOME status=401 b x a x",
		"CL.REPORT d OUTCOME status=200 b x", "CL.REPORT d COST 3 OUTCOME status=403 MS -- b x", "CL.REPORT e OUTCOME status=401 b x",
		"CL.REPORT d OUTCOME status=4010 b x", "CL.REPORT d OUTCOME =401 b x", "CL.REPORT d PEEK x y",
	} {
		f.Add(line)
	}
	store := newRules(f, fuzzRules)
	var state ruleState
	state.init(store)
	f.Fuzz(func(t *testing.T, line string) {
		var args [][]byte
		for _, w := range strings.Split(line, " ") {
			args = append(args, []byte(w))
		}
		cmd := testCommands.find(args, nil)
		if cmd == nil || !cmd.rules || !cmd.arityFits(len(args)) {
			return
		}
		p := parsing{logEntries: 1, rule: ruleParsing{state: &state}}
		if err := cmd.parse(&p, args); err != nil {
			if _, known := asReply(err); !known || err == errBatchFull {
				t.Fatalf("%q: got error %v, want one with an error reply", line, err)
			}
			return
		}
		checkRequests(t, line, &p)
		checkDashes(t, cmd, &p, args)
	})
}

// checkRequests checks the requests of a call, which are the only ones of p.
func checkRequests(t *testing.T, line string, p *parsing) {
	t.Helper()
	group := 0
	for i, req := range p.reqs {
		group++
		last := i == len(p.reqs)-1
		if !req.Kind.Known() || req.Limit.Max < 1 || !bytes.HasPrefix(req.Key, []byte("rule|")) || group > limiter.MaxGroup || last && req.Linked {
			t.Fatalf("%q: request %d of %d is invalid: %+v", line, i, len(p.reqs), req)
		}
		for _, other := range p.reqs[:i] {
			if bytes.Equal(other.Key, req.Key) {
				t.Fatalf("%q: key %s is used twice", line, req.Key)
			}
		}
		if !req.Linked {
			group = 0
		}
	}
	if len(p.reqs) > batchSize || p.shadows > len(p.reqs) {
		t.Fatalf("%q: %d requests and %d shadows", line, len(p.reqs), p.shadows)
	}
	for _, a := range p.limits {
		none := a.counter.Kind == 0 || a.noCost && a.isShadow()
		if int(a.request) >= len(p.reqs) || a.request < 0 != none || !none && a.isShadow() && int(a.request) < len(p.reqs)-p.shadows {
			t.Fatalf("%q: counter of limit %q has request %d", line, a.name(), a.request)
		}
		if a.ban >= 0 && p.reqs[a.ban].Kind != limiter.Ban {
			t.Fatalf("%q: the ban of limit %q has request %d", line, a.name(), a.ban)
		}
	}
}

// checkDashes parses the call again, with "--" before the first attribute.
func checkDashes(t *testing.T, cmd *command, p *parsing, args [][]byte) {
	t.Helper()
	allowed := uint8(optionsCheck)
	if cmd.report {
		allowed = optionsReport
	}
	o := newCheckOptions()
	pairs, err := o.read(args[2:], allowed)
	if err != nil {
		t.Fatalf("%q: the options are refused, but not the call: %v", args, err)
	}
	at := len(args) - len(pairs)
	if string(args[at-1]) == "--" && at > 2 {
		return
	}
	dashed := append(append(append([][]byte{}, args[:at]...), []byte("--")), pairs...)
	again := parsing{logEntries: 1, rule: ruleParsing{state: p.rule.state}}
	if err := cmd.parse(&again, dashed); err != nil || !reflect.DeepEqual(again.reqs, p.reqs) {
		t.Fatalf("%q: requests %+v and error %v, want %+v", dashed, again.reqs, err, p.reqs)
	}
}
