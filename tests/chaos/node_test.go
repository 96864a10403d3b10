package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestCrashes checks that only unexpected exits are reported.
func TestCrashes(t *testing.T) {
	ended := make(chan struct{})
	close(ended)
	n := &node{id: "n1", boots: []*boot{
		{ended: ended, code: 75},
		{ended: ended, code: 137, asked: true},
		{ended: ended, code: 139},
		{ended: make(chan struct{})},
	}}
	if got := n.crashes(); !slices.Equal(got, []int{75, 139}) {
		t.Errorf("unexpected exits: got the codes %v, want 75 and 139", got)
	}
	if n.running() != n.boots[3] {
		t.Error("running does not return the last process, which has not exited")
	}
	n.boots = n.boots[:3]
	n.forgive()
	if got := n.crashes(); !slices.Equal(got, []int{75}) || n.running() != nil {
		t.Errorf("after forgive: got the codes %v, want only 75, and no running process", got)
	}
}

// TestJudgeProcesses checks that crashes, panics and races are found.
func TestJudgeProcesses(t *testing.T) {
	ended := make(chan struct{})
	close(ended)
	for _, tt := range []struct {
		name, log string
		boots     []*boot
		want      int // findings
	}{
		{"no failure", "msg=ready\n", nil, 0},
		{"a panic", "msg=ready\npanic: nil map\ngoroutine 1\n", nil, 1},
		{"a race", "WARNING: DATA RACE\n", nil, 1},
		{"a crash", "msg=bye\n", []*boot{{ended: ended, code: 1}}, 1},
	} {
		n := &node{id: "n1", dir: t.TempDir(), boots: tt.boots}
		if err := os.WriteFile(n.logFile(), []byte(tt.log), 0o600); err != nil {
			t.Fatal(err)
		}
		c := &trial{cluster: &cluster{nodes: []*node{n}}}
		if got := judgeProcesses(c.nodes); len(got) != tt.want {
			t.Errorf("%s: the findings are %v; want the number of the case", tt.name, got)
		}
	}
	lost := &trial{cluster: &cluster{nodes: []*node{{id: "n1", dir: t.TempDir()}}}}
	if got := judgeProcesses(lost.nodes); len(got) != 1 {
		t.Errorf("missing log: got the findings %v, want one", got)
	}
}

// TestWipe checks that a wiped node joins under its old id and does not bootstrap.
func TestWipe(t *testing.T) {
	for _, old := range [][]string{{"--bootstrap", "n1=a n2=b"}, {"--join", "10.0.0.9:1"}} {
		n := &node{id: "n1", dir: t.TempDir(), args: slices.Concat([]string{"--node-id", "n1"}, old, []string{"--x", "y"})}
		if err := os.MkdirAll(n.dataDir()+"/deep", 0o700); err != nil {
			t.Fatal(err)
		}
		if err := n.wipe("10.0.0.2"); err != nil {
			t.Fatal(err)
		}
		left, err := os.ReadDir(n.dataDir())
		if want := []string{"--node-id", "n1", "--x", "y", "--join", "10.0.0.2:6382"}; err != nil || len(left) > 0 || !slices.Equal(n.args, want) {
			t.Errorf("after wipe: arguments %v, %d files in the data directory, error: %v; want only --join 10.0.0.2:6382 to join through, and no files", n.args, len(left), err)
		}
	}
}

func TestWallAndTail(t *testing.T) {
	n := &node{id: "n1", dir: t.TempDir()}
	for _, d := range []time.Duration{time.Hour, -5 * time.Second, 0} {
		if err := n.setWall(d); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(n.wallFile()); err != nil || string(text) != "0" {
		t.Errorf("offset file: got %q, want 0; error: %v", text, err)
	}
	if err := os.WriteFile(n.logFile(), []byte("a\nb\nc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := n.tail(2); got != "b\nc" {
		t.Errorf("last 2 lines: got %q, want b and c", got)
	}
	if got := n.tail(9); strings.Count(got, "\n") != 2 {
		t.Errorf("last 9 lines of a log with 3 lines: got %q, want all 3", got)
	}
}

func TestPlaces(t *testing.T) {
	list := []*node{{id: "n1", host: &host{addr: "1.1.1.1"}}, {id: "n2", host: &host{addr: "1.1.1.2"}}}
	c := &cluster{nodes: list}
	if got := c.members(); got != "n1=1.1.1.1:6382 n2=1.1.1.2:6382" {
		t.Errorf("members: got %q, want n1=1.1.1.1:6382 n2=1.1.1.2:6382", got)
	}
	if got := c.otherAddrs(list[0]); !slices.Equal(got, []string{"1.1.1.2"}) {
		t.Errorf("addresses except that of n1: got %v, want 1.1.1.2", got)
	}
	if c.place(list[1]) != 1 || c.place(&node{}) != -1 {
		t.Error("place does not return 1 for the second node, and -1 for a node that is not in the cluster")
	}
}
