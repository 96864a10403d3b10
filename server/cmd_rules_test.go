package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/rules"
	"github.com/throttledhq/throttled/ruleset"
	"github.com/throttledhq/throttled/server/forward"
	"github.com/throttledhq/throttled/topology"
)

// Propose implements ruleset.Log: the deciding node changes the rules of the lab.
func (n *labNode) Propose(ctx context.Context, p ruleset.Proposal) (ruleset.Result, error) {
	n.lab.mu.Lock()
	deciding, err := n.lab.deciding == n.id, n.lab.adminErr
	n.lab.mu.Unlock()
	deadline, ok := ctx.Deadline()
	switch {
	case err != nil:
		return ruleset.Result{}, err
	case !ok || time.Until(deadline) < 2*forward.ReplyTimeout:
		return ruleset.Result{}, errors.New("the time is too short to compile a large set")
	case !deciding:
		return ruleset.Result{}, topology.ErrNoLeader
	}
	return ruleset.NewLocal(n.lab.rules, time.Now).Propose(ctx, p)
}

// liveText returns the text of a rule set with one limit.
func liveText(limit string) string {
	return "version: 1\ndomain: shop\nlimits:\n  " + limit + ": {allow: 5 per minute}\n"
}

// TestClRulesInACluster changes the rules through a follower. The leader must run the commands.
func TestClRulesInACluster(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	p, leader := l.nodes["b"].dial(), l.nodes["a"].dial()
	changed := func(v value, version int64) {
		t.Helper()
		got, _ := v.field("version")
		is, _ := v.field("changed")
		if got.int() != version || is.int() != 1 {
			t.Errorf("the reply is %s, want version %d, changed", v, version)
		}
	}
	before := int64(l.rules.Newest().Number)
	changed(p.ask("CL.RULES", "SET", liveText("a")), before+1)
	if author, want := l.rules.Newest().Author, p.LocalAddr().String()+" of node b"; author != want {
		t.Errorf("the author of a forwarded command is %q, want %q", author, want)
	}
	leader.do("+OK\r\n", "CLIENT", "SETNAME", "ops")
	changed(leader.ask("CL.RULES", "PATCH", "limits: {a: {allow: 6/s}}"), before+2)
	if author := l.rules.Newest().Author; !strings.HasPrefix(author, "ops at 127.0.0.1:") {
		t.Errorf("the author is %q, want the name and the address of the connection", author)
	}
	changed(p.ask("CL.RULES", "ROLLBACK", fmt.Sprint(before+1), "AUTHOR", "ann"), before+3)
	if author := l.rules.Newest().Author; author != "ann" {
		t.Errorf("the author is %q, want ann", author)
	}
	p.do(bulk(liveText("a")), "CL.RULES", "GET")
	if list := p.ask("CL.RULES", "HISTORY", "2").list; len(list) != 2 {
		t.Errorf("HISTORY 2 has %d versions", len(list))
	}
	p.fails("ERR rules:4:14: limits.x.allow:", "CL.RULES", "SET", "version: 1\ndomain: shop\nlimits:\n  x: {allow: 5}\n")
	info := p.info("rules")
	if want := fmt.Sprint(before + 3); info["rules_version"] != want || info["rules_active_version"] != want || info["rules_limits"] != "1" {
		t.Errorf("INFO rules has %v, want version %s with one limit", info, want)
	}
}

// TestWaitTime checks that a node waits as long as the leader may take to change the rules.
func TestWaitTime(t *testing.T) {
	t.Parallel()
	const changes = "cl.rules|set cl.rules|patch cl.rules|rollback"
	rows := append(liveRulesCommands(), command{name: "ping"})
	for i := range rows {
		want := time.Duration(0)
		if slices.Contains(strings.Fields(changes), rows[i].name) {
			want = rulesTimeout
		}
		if got := waitTime(&rows[i], nil); got != want {
			t.Errorf("%s: a node waits %v longer for the reply, want %v", rows[i].name, got, want)
		}
	}
	for _, test := range []struct {
		timeout string
		want    time.Duration
	}{{"1500", 1500 * time.Millisecond}, {"0", 0}, {"3600000", 0}, {"x", 0}} {
		if got := waitTime(&command{name: "wait"}, [][]byte{nil, nil, []byte(test.timeout)}); got != test.want {
			t.Errorf("WAIT 0 %s: a node waits %v longer for the reply, want %v", test.timeout, got, test.want)
		}
	}
}

// TestClRulesErrors checks the replies for errors of the log.
func TestClRulesErrors(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	p := l.nodes["b"].dial()
	for _, test := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("change the rules: %w", topology.ErrChanging), "TRYAGAIN change the rules: "},
		{fmt.Errorf("set the first rules: %w: ask b: down", topology.ErrNoRules), "ERR set the first rules: all members must be running"},
		{errors.New("disk\r\nfull"), "ERR disk  full"},
	} {
		l.mu.Lock()
		l.adminErr = test.err
		l.mu.Unlock()
		p.fails(test.want, "CL.RULES", "SET", liveText("a"))
	}
}

// TestClRulesWithoutLeader checks that the errors of CL.RULES state whether the rules were changed.
func TestClRulesWithoutLeader(t *testing.T) { synctest.Test(t, testClRulesWithoutLeader) }

func testClRulesWithoutLeader(t *testing.T) {
	set, list := []string{"CL.RULES", "SET", liveText("a"), "AUTHOR", "ann"}, []string{"CL.RULES", "LIST"}
	l := newPipedLab(t, "a", "b")
	node := l.nodes["b"]
	p, q := node.at(node.clients), node.at(node.cluster)
	for _, words := range [][]string{set, {"CL.RULES", "PATCH", "limits: {}"}, {"CL.RULES", "ROLLBACK", "1"}} {
		p.do("-LOADING the cluster has no leader at the moment: nothing was changed, try again\r\n", words...)
		q.do("-CLUSTERDOWN The cluster is down: it has no leader at the moment, nothing was changed, try again\r\n", words...)
	}
	p.do(failure(errNotLeading), "CL.THROTTLE", "k", "1", "1", "1")
	for _, name := range []string{"GET", "LIST", "HISTORY", "EXPLAIN d"} { // the node has the rules
		words := append([]string{"CL.RULES"}, strings.Fields(name)...)
		for _, r := range []*peer{p, q} {
			if got := r.ask(words...); got.kind == '-' {
				t.Errorf("without a leader, CL.RULES %s returned %s", name, got)
			}
		}
		node.at(node.peers).do(notLeadingLine, words...)
	}
	l.setViewLeader("b", "a") // which is not reachable
	p.do("-LOADING the cluster has no leader at the moment: try again\r\n", list...)
	q.do("-CLUSTERDOWN The cluster is down: it has no leader at the moment, try again\r\n", list...)

	_, p, streams := newPipedPlay(t, "a", "b")
	for _, c := range []struct {
		words []string
		want  string
	}{
		{set, "-UNCERTAIN leadership was lost before the change was confirmed: it may have been applied, see CL.RULES HISTORY\r\n"},
		{list, "-UNCERTAIN leadership was lost before the reply: try again\r\n"},
	} {
		p.send(request(c.words...))
		s := <-streams
		s.expect(t, request(c.words...))
		_ = s.Close()
		p.expect(c.want)
	}
}

// TestErrorsOfRules checks the errors of CL.RULES that a busy follower returns, and that all others are unchanged.
func TestErrorsOfRules(t *testing.T) {
	set, get, throttle := &command{name: "cl.rules|set"}, &command{name: "cl.rules|get"}, &command{name: "cl.throttle"}
	if got := get.errorOf(errBusy); got != errReadBusy {
		t.Errorf("the error of CL.RULES GET on a busy follower is %q, want %q", got, errReadBusy)
	}
	if got := set.errorOf(errBusy); got != errRulesBusy {
		t.Errorf("the error of CL.RULES SET on a busy follower is %q, want %q", got, errRulesBusy)
	}
	for _, e := range []replyError{errBusy, errNotLeading, errUncertain, errClusterDown} {
		if got := throttle.errorOf(e); got != e {
			t.Errorf("the error %q of CL.THROTTLE became %q", e, got)
		}
	}
	if got := (&command{name: "cl.cluster|remove"}).errorOf(errUncertain); got != errMembersUncertain {
		t.Errorf("the error of CL.CLUSTER REMOVE is %q, want %q", got, errMembersUncertain)
	}
	for _, e := range []replyError{errPeerNotLeading, errGoaway, errNoRules, errSyntax} {
		if got := set.errorOf(e); got != e {
			t.Errorf("the error %q of CL.RULES SET became %q", e, got)
		}
	}
}

// TestClRulesWithoutStore checks a server that was created without rules.
func TestClRulesWithoutStore(t *testing.T) {
	t.Parallel()
	p := start(t, nil).dial()
	for _, words := range [][]string{
		{"GET"}, {"LIST"}, {"HISTORY"}, {"EXPLAIN", "shop"}, {"SET", "x"}, {"PATCH", "x"}, {"ROLLBACK", "1"},
	} {
		p.do(string("-"+errNoRules+"\r\n"), slices.Concat([]string{"CL.RULES"}, words)...)
	}
	if info := p.info("rules"); len(info) != 0 {
		t.Errorf("INFO rules has %v, want no fields", info)
	}
}

// TestClRulesFileProblem checks the field of INFO for problems.
func TestClRulesFileProblem(t *testing.T) {
	t.Parallel()
	store := ruleset.NewStore()
	p := setup{rules: store}.start(t).dial()
	list := rules.Errors{{File: "a.yaml", Line: 1, Column: 1, Reason: "bad"}, {File: "a.yaml", Line: 2, Column: 1, Reason: "bad"}}
	many := append(slices.Clone(list), append(slices.Clone(list), list...)...)
	for want, problem := range map[string]error{
		"": nil, "cannot read it": errors.New("cannot read\nit"), "a.yaml:1:1: bad | a.yaml:2:1: bad": list,
		"use a newer program: a.yaml:1:1: bad | a.yaml:2:1: bad":           fmt.Errorf("use a newer program: %w", list),
		"a.yaml:1:1: bad | a.yaml:2:1: bad | a.yaml:1:1: bad | and 3 more": many,
	} {
		store.SetFile(ruleset.RulesFile{Problem: problem})
		if got := p.info("rules")["rules_last_error"]; got != want {
			t.Errorf("rules_last_error is %q, want %q", got, want)
		}
	}
	bad := ruleset.Version{Number: 1, Hash: "x"}
	store.Activate(bad, nil)
	store.CompileNewest()
	if got := p.info("rules")["rules_last_error"]; !strings.Contains(got, ruleset.ErrDamaged.Error()) {
		t.Errorf("rules_last_error is %q, want %v", got, ruleset.ErrDamaged)
	}
	p.fails("ERR version 1: the stored text of the rules is damaged", "CL.RULES", "LIST")
	p.fails("ERR version 1: the text of this version is no longer stored", "CL.RULES", "GET", "1")
}

// TestClRulesFileVersion checks the fields of INFO about the text of the file.
func TestClRulesFileVersion(t *testing.T) {
	t.Parallel()
	store := ruleset.NewStore()
	p := setup{rules: store}.start(t).dial()
	for _, name := range []string{"a", "b", "a", "c"} {
		setRules(t, store, liveText(name))
	}
	for _, test := range []struct{ hash, version, active string }{
		{"", "0", "0"}, {ruleset.HashOf(liveText("x")), "0", "0"}, {ruleset.HashOf(liveText("b")), "2", "0"},
		{ruleset.HashOf(liveText("a")), "3", "0"}, {ruleset.HashOf(liveText("c")), "4", "1"},
	} {
		store.SetFile(ruleset.RulesFile{Hash: test.hash})
		if info := p.info("rules"); info["rules_file_version"] != test.version || info["rules_file_active"] != test.active {
			t.Errorf("for a file with the hash %q, INFO rules has %v, want version %s, active %s", test.hash, info, test.version, test.active)
		}
	}
}
