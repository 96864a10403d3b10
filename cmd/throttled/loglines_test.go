package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// documentedLine matches a row of the table of log lines in docs/operations.md: the text and the level.
var documentedLine = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (INFO|WARN) \\|")

// documentedLines returns the levels of the documented log lines, by text.
func documentedLines(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]string{}
	for _, m := range documentedLine.FindAllStringSubmatch(string(text), -1) {
		lines[m[1]] = m[2]
	}
	return lines
}

// checkLines checks that a log has documented lines only, and adds their texts to seen.
func checkLines(t *testing.T, p *process, documented map[string]string, seen map[string]bool) {
	t.Helper()
	for line := range strings.Lines(p.log.String()) {
		var fields struct{ Level, Msg string }
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		seen[fields.Msg] = true
		if documented[fields.Msg] != fields.Level {
			t.Errorf("a line of %s is not in the table of docs/operations.md, or has another level there:\n%s", p.id, line)
		}
	}
}

// TestProcess_LogLines starts a cluster, kills its leader, restarts it, stops a follower and restarts it, and stops all nodes. At
// the default level, the nodes may only log documented lines.
func TestProcess_LogLines(t *testing.T) {
	documented, seen := documentedLines(t), map[string]bool{}
	all := newProcesses(t, []string{"n1", "n2", "n3"}, "--raft-heartbeat", "1000", "--log-format", "json", "--protected-mode", "no")
	leader, others := leaderOf(t, all)
	ready := func(p *process) { p.askUntil("[0 ", "CL.THROTTLE", "k", 1, 1, 60, 0) }
	for _, p := range all {
		ready(p)
	}
	leader.askUntil("OK", "SAVE")
	leader.kill()
	checkLines(t, leader, documented, seen)
	for _, p := range others {
		ready(p)
	}
	leader.start()
	ready(leader)
	second, followers := leaderOf(t, all)
	for _, p := range []*process{followers[0], second} { // a planned change of leader follows
		stop(p, documented, seen)
		p.start()
		ready(p)
	}
	for _, p := range all {
		stop(p, documented, seen)
	}
	for _, text := range []string{"ready", "this node leads", "stopped", "raft: entering candidate state", "raft: failed to heartbeat to"} {
		if !seen[text] {
			t.Errorf("no node has logged %q", text)
		}
	}
}

// stop stops a process with SIGTERM and checks its log.
func stop(p *process, documented map[string]string, seen map[string]bool) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	if code, _ := p.waitExit(patience); code != exitOK {
		p.t.Errorf("%s exits with %d:\n%s", p.id, code, p.log)
	}
	checkLines(p.t, p, documented, seen)
}
