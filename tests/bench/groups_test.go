package main

import (
	"bufio"
	"net"
	"reflect"
	"strings"
	"testing"
)

const groupReply = "*7\r\n:1\r\n:5\r\n:0\r\n:10\r\n:50\r\n*5\r\n:0\r\n:9\r\n:8\r\n:-1\r\n:1\r\n*6\r\n:1\r\n:5\r\n:0\r\n:10\r\n:50\r\n:-1\r\n"

func TestReadGroup(t *testing.T) {
	got, err := readGroup(bufio.NewReader(strings.NewReader(groupReply)))
	want := [][]int64{{1, 5, 0, 10, 50}, {0, 9, 8, -1, 1}, {1, 5, 0, 10, 50, -1}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got the decisions %v, error: %v; want those in groupReply", got, err)
	}
	for n := range len(groupReply) {
		if _, err := readGroup(bufio.NewReader(strings.NewReader(groupReply[:n]))); err == nil {
			t.Errorf("incomplete reply %q: no error, want one", groupReply[:n])
		}
	}
	if _, err := readGroup(bufio.NewReader(strings.NewReader("-OOM no\r\n"))); err == nil {
		t.Error("error reply: no error, want one")
	}
}

// TestWrongCharges checks the number of keys whose used units differ from the charges. The server
// replies that each key has one unit in use; two keys were charged differently.
func TestWrongCharges(t *testing.T) {
	specs := groupSpecs()
	reply := "*29\r\n:0\r\n:9\r\n:8\r\n:-1\r\n:1\r\n" + strings.Repeat("*5\r\n:0\r\n:9\r\n:8\r\n:-1\r\n:1\r\n", groupKeys)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	asked := make(chan string, 1)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		line, _ := bufio.NewReader(c).ReadString('\n')
		asked <- line
		_, _ = c.Write([]byte(reply))
	}()
	var charged [groupKeys]int64
	for i := range charged {
		charged[i] = 1
	}
	charged[3], charged[7] = 2, 0
	if wrong, err := wrongCharges(ln.Addr().String(), specs, charged); wrong != 2 || err != nil {
		t.Errorf("got %d keys with wrong charges, want 2; error: %v", wrong, err)
	}
	if line := <-asked; !strings.HasPrefix(line, "CL.ALL 0 THROTTLE group:0 99999 1 1d WINDOW group:1 50 36500d BUCKET ") {
		t.Errorf("got the request %q, want a peek at all keys in their order", line)
	}
}

// TestJudgeGroups checks that judgeGroups returns the error of a client.
func TestJudgeGroups(t *testing.T) {
	b := &board{}
	if err := judgeGroups("127.0.0.1:0", groupSpecs(), []clientRecord{{calls: 5, err: net.ErrClosed}}, b); err == nil {
		t.Error("record of a client that failed: no error, want one")
	}
}
