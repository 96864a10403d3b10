package main

import (
	"bufio"
	"strings"
	"testing"
)

func TestReadReply(t *testing.T) {
	for reply, want := range map[string]string{
		"+OK\r\n":                         "OK",
		":-1\r\n":                         "-1",
		"$-1\r\n":                         "",
		"$4\r\na\r\nb\r\n":                "a\r\nb",
		"*2\r\n$2\r\nn1\r\n$2\r\nn2\r\n":  "n1\nn2\n",
		"*0\r\n":                          "",
		"*2\r\n*1\r\n+a\r\n$1\r\nb\r\n":   "a\n\nb\n",
		"$2\r\nn1\r\n+the next reply\r\n": "n1",
	} {
		if got, err := readReply(bufio.NewReader(strings.NewReader(reply))); got != want || err != nil {
			t.Errorf("reply %q: read as %q, error: %v; want the text of the reply", reply, got, err)
		}
	}
	for _, reply := range []string{"-ERR no\r\n", "", "$x\r\n", "$4\r\nabc", "*2\r\n+a\r\n", "*1\r\n-ERR no\r\n"} {
		if got, err := readReply(bufio.NewReader(strings.NewReader(reply))); err == nil {
			t.Errorf("reply %q: no error, read as %q; want an error", reply, got)
		}
	}
}

func TestVotes(t *testing.T) {
	const nodes = "n1 raft=a:1 role=leader self host=a port=1\nn2 raft=a:2 role=follower host=a port=2\nn3 raft=a:3 role=learner host=a port=3\n"
	for id, want := range map[string]bool{"n1": true, "n2": true, "n3": false, "n4": false, "n": false} {
		if got := votes(nodes, id); got != want {
			t.Errorf("votes(%s) = %t, want the opposite", id, got)
		}
	}
}

// TestGroup starts nodes, kills the leader and waits for a new leader.
func TestGroup(t *testing.T) {
	t.Chdir(repository) // the root of the module, where the programs are built
	err := withPrograms(func(server string, _ generator) error {
		nodes, err := startGroup(server, "--raft-fsync", "no")
		if err != nil {
			return err
		}
		defer func() {
			if err := nodes.stop(); err != nil {
				t.Error(err)
			}
		}()
		first, err := nodes.leader()
		if err != nil {
			return err
		}
		if err := first.kill(); err != nil {
			return err
		}
		second, err := nodes.leader()
		if err == nil && second == first {
			t.Error("the killed node is still the leader")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
