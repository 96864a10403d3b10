package main

import (
	"bufio"
	"net"
	"reflect"
	"testing"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

// answer listens for one connection, and answers its first command with the given bytes.
func answer(t *testing.T, says string) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := ln.Accept()
		if err != nil {
			return // the listener is closed
		}
		defer func() { _ = conn.Close() }()
		if _, err := readReply(bufio.NewReader(conn)); err != nil { // a command has the format of a reply
			t.Errorf("read command: %v", err)
		}
		if _, err := conn.Write([]byte(says)); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		_ = ln.Close() // it may already be closed
		<-done
	})
	return ln.Addr().String()
}

func TestProbes(t *testing.T) {
	a, b := &node{id: "a"}, &node{id: "b"}
	p := &probes{all: []*probe{
		{node: a, oks: []history.Op{{Call: 10, Return: 11}, {Call: 50, Return: 58}}, fails: []failure{{20, "LOADING"}, {30, "connection"}}},
		{node: b, oks: []history.Op{{Call: 5, Return: 6}, {Call: 40, Return: 70}, {Call: 60, Return: 72}}, fails: []failure{{20, "LOADING"}}},
	}}
	for _, tt := range []struct {
		moment int64
		except *node
		want   int64
	}{{0, nil, 6}, {7, nil, 11}, {7, a, 70}, {12, nil, 58}, {12, b, 58}, {41, a, 72}, {61, nil, 0}, {41, b, 58}} {
		if got := p.firstAfter(tt.moment, tt.except); got != tt.want {
			t.Errorf("first decision on a request sent after %d: got %d, want %d", tt.moment, got, tt.want)
		}
	}
	if got := p.failed(20, 29, nil); !reflect.DeepEqual(got, map[string]int{"LOADING": 2}) {
		t.Errorf("failed requests sent from 20 to 29: got %v, want 2 with LOADING", got)
	}
	if got := p.failed(0, 99, b); !reflect.DeepEqual(got, map[string]int{"LOADING": 1, "connection": 1}) {
		t.Errorf("failed requests to node a: got %v, want one with LOADING and one with connection", got)
	}
	if gap := longestGap(p, 0, 80, nil); gap != 47*time.Nanosecond {
		t.Errorf("longest gap of both nodes: got %d ns, want 47 ns", gap)
	}
	if gap := longestGap(p, 0, 80, b); gap != 47*time.Nanosecond {
		t.Errorf("longest gap of node a: got %d ns, want 47 ns", gap)
	}
	if gap := longestGap(p, 0, 80, a); gap != 64*time.Nanosecond {
		t.Errorf("longest gap of node b: got %d ns, want 64 ns", gap)
	}
}
