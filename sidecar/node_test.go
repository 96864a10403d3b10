package sidecar

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// node is an upstream that only answers probes, while it is not paused.
type node struct {
	t        *testing.T
	ln       net.Listener
	password string // "user:password"; empty requires none

	mu     sync.Mutex
	paused chan struct{} // not nil while paused; closed to continue
	reply  string        // to EXISTS
	role   string        // reply to ROLE, without the end of its last line
	master string        // address of the leader, if the node is a Sentinel
	refuse string        // error reply to ROLE; empty if there is none
	full   string        // error reply with which new connections are refused; empty if they are not
	roles  int           // ROLE commands received
	conns  []net.Conn
	logins int // AUTH commands received
}

func newNode(t *testing.T) *node {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, ln: ln, reply: ":0", role: leaderRole()}
	go n.accept(ln)
	t.Cleanup(n.kill)
	return n
}

func (n *node) addr() string { return n.ln.Addr().String() }

func (n *node) accept(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		n.mu.Lock()
		n.conns = append(n.conns, c)
		full := n.full
		n.mu.Unlock()
		go n.serve(c, full)
	}
}

// serve serves a connection, which is refused after its first command unless full is empty.
func (n *node) serve(c net.Conn, full string) {
	defer func() { _ = c.Close() }()
	in, login := bufio.NewReader(c), ""
	for {
		words, err := readWords(in)
		if err != nil {
			return
		}
		if full != "" {
			_, _ = c.Write([]byte("-" + full + "\r\n"))
			return
		}
		n.mu.Lock()
		paused, reply, role, master, password := n.paused, n.reply, n.role, n.master, n.password
		if words[0] == "ROLE" {
			n.roles++
		}
		if n.refuse != "" {
			role = n.refuse
		}
		n.mu.Unlock()
		if paused != nil {
			<-paused
		}
		switch {
		case words[0] == "AUTH":
			n.mu.Lock()
			n.logins++
			n.mu.Unlock()
			if login = strings.Join(words[1:], ":"); login != password {
				reply = "-WRONGPASS invalid username-password pair or user is disabled."
			} else {
				reply = "+OK"
			}
		case password != login:
			reply = "-NOAUTH Authentication required."
		case words[0] == "ROLE":
			reply = role
		case words[0] == "SENTINEL":
			reply = master
		}
		if _, err := c.Write([]byte(reply + "\r\n")); err != nil {
			return
		}
	}
}

// leaderRole returns the reply of a leader to ROLE.
func leaderRole(replicas ...string) string {
	reply := fmt.Sprintf("*3\r\n$6\r\nmaster\r\n:7\r\n*%d", len(replicas))
	for _, addr := range replicas {
		host, port, _ := net.SplitHostPort(addr)
		reply += fmt.Sprintf("\r\n*3\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n$1\r\n7", len(host), host, len(port), port)
	}
	return reply
}

// followerRole returns the reply of a follower to ROLE.
func followerRole(leader string) string {
	host, port, _ := net.SplitHostPort(leader)
	return fmt.Sprintf("*5\r\n$5\r\nslave\r\n$%d\r\n%s\r\n:%s\r\n$9\r\nconnected\r\n:7", len(host), host, port)
}

// readWords reads a command.
func readWords(in *bufio.Reader) (words []string, err error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(strings.Trim(line, "*\r\n"))
	for range 2 * n {
		if line, err = in.ReadString('\n'); err != nil {
			return nil, err
		}
		words = append(words, strings.TrimRight(line, "\r\n"))
	}
	for i := range n { // without the lengths
		words[i] = words[2*i+1]
	}
	return words[:n], err
}

func (n *node) pause() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.paused = make(chan struct{})
}

func (n *node) resume() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.paused != nil {
		close(n.paused)
		n.paused = nil
	}
}

func (n *node) answer(reply string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reply = reply
}

// follow sets the leader of the node. With an empty address, the node leads.
func (n *node) follow(leader string) {
	if leader == "" {
		n.lead()
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.role = followerRole(leader)
}

// lead makes the node a leader with replicas.
func (n *node) lead(replicas ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.role = leaderRole(replicas...)
}

// watch makes the node a Sentinel that knows a leader; an empty address means that it knows none.
func (n *node) watch(leader string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.role, n.reply, n.master = "*2\r\n$8\r\nsentinel\r\n*1\r\n$6\r\nlimits", "-ERR unknown command", "*-1"
	if host, port, err := net.SplitHostPort(leader); err == nil {
		n.master = fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$%d\r\n%s", len(host), host, len(port), port)
	}
}

// countRoles returns the number of ROLE commands received.
func (n *node) countRoles() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.roles
}

func (n *node) setPassword(password string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.password = password
}

// countLogins returns the number of AUTH commands received.
func (n *node) countLogins() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.logins
}

// refuseRole sets the error reply to ROLE.
func (n *node) refuseRole(reply string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refuse = reply
}

// fill makes the node refuse new connections.
func (n *node) fill(reply string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.full = reply
}

// kill closes the listener and all connections.
func (n *node) kill() {
	n.resume()
	_ = n.ln.Close()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		_ = c.Close()
	}
}

// restart listens on the same address again.
func (n *node) restart() {
	n.t.Helper()
	ln, err := net.Listen("tcp", n.addr())
	if err != nil {
		n.t.Fatal(err)
	}
	n.ln = ln
	go n.accept(ln)
}

// eventually waits until a condition holds. It polls, because the condition is a state of another goroutine.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !condition(); time.Sleep(time.Millisecond) { // the polling interval
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}
