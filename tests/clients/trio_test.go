package clienttests

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// trio is a cluster of three nodes. Each has its own loopback address, so that all of them can use the
// default ports, and no other connection can take a port while its node is down.
type trio struct {
	dir     string
	network string   // the address of a node without its last byte
	beat    string   // the heartbeat of Raft in milliseconds
	options []string // further options of each node
	nodes   map[string]*server
}

// Heartbeats in milliseconds. Followers consider a leader lost if it is silent for longer than the
// heartbeat. The default is 250. The values used here are longer, so that a running leader keeps
// its leadership even on a busy machine. patientBeat is for tests in which no leader is killed.
const (
	usualBeat   = "500"
	patientBeat = "1000"
)

// The ports of a node, which are the defaults, and names.
const (
	portForAll      = "6380"
	portForCluster  = "6384"
	portForSentinel = "26380"
	portForLeader   = "6386" // the port that Sentinel returns
	portForNodes    = "6382"
	trioPassword    = "open-sesame" // fred sends a password with a space as two words
	trioMaster      = "mymaster"
)

var trioIDs = []string{"n1", "n2", "n3"}

// startTrio starts the nodes with certificates. They run until the test ends.
func startTrio(t *testing.T, beat string) *trio {
	t.Helper()
	c := newTrio(t, beat)
	c.start(t)
	return c
}

// newTrio chooses the addresses of the nodes, and creates their certificates.
func newTrio(t *testing.T, beat string) *trio {
	t.Helper()
	c := &trio{dir: t.TempDir(), beat: beat, nodes: map[string]*server{}}
	c.network = fmt.Sprintf("127.%d.%d.", 1+rand.IntN(254), rand.IntN(255))
	args := append([]string{"certs", "--dir", c.dir, "--cluster", "trio"}, trioIDs...)
	if got := runTool(t, "", program, args...); got.code != 0 {
		t.Fatalf("throttled certs: got %+v, want exit code 0", got)
	}
	return c
}

// start starts the nodes, and waits until they have a leader.
func (c *trio) start(t *testing.T) {
	t.Helper()
	for _, id := range trioIDs {
		c.launch(t, id)
	}
	for _, id := range trioIDs {
		c.nodes[id].awaitReady(t)
	}
	c.awaitLeader(t)
}

// host returns the address of a node.
func (c *trio) host(id string) string { return c.network + strings.TrimPrefix(id, "n") }

// at returns the address of a node's port.
func (c *trio) at(id, port string) string { return net.JoinHostPort(c.host(id), port) }

// hosts returns the addresses of all nodes.
func (c *trio) hosts() (list []string) {
	for _, id := range trioIDs {
		list = append(list, c.host(id))
	}
	return list
}

// all returns the addresses of a port on all nodes, starting with that of the given node.
func (c *trio) all(first, port string) []string {
	list := []string{c.at(first, port)}
	for _, id := range trioIDs {
		if id != first {
			list = append(list, c.at(id, port))
		}
	}
	return list
}

// launch starts a node.
func (c *trio) launch(t *testing.T, id string) {
	t.Helper()
	var members []string
	for _, id := range trioIDs {
		members = append(members, id+"="+c.at(id, portForNodes))
	}
	in := func(name string) string { return filepath.Join(c.dir, name) }
	args := []string{"--bind", c.host(id), "--data-dir", in("data-" + id), "--cluster-id", "trio", "--raft-heartbeat", c.beat,
		"--node-id", id, "--raft-addr", c.at(id, portForNodes), "--bootstrap", strings.Join(members, " "),
		"--raft-tls-cert", in(id + ".pem"), "--raft-tls-key", in(id + "-key.pem"), "--raft-tls-ca", in("ca.pem")}
	c.nodes[id] = launch(t, trioPassword, append(args, c.options...)...)
	c.nodes[id].inTrio = true
}

// kill kills a node with SIGKILL.
func (c *trio) kill(t *testing.T, id string) {
	t.Helper()
	s := c.nodes[id]
	delete(c.nodes, id)
	s.stopOnce.Do(func() {
		s.signal(t, syscall.SIGKILL)
		<-s.ended
		var exit *exec.ExitError
		if err := s.process.Wait(); !errors.As(err, &exit) || exit.Exited() {
			t.Errorf("%s was killed, but its exit is reported as %v; log:\n%s", id, err, s.log())
		}
	})
}

// stop stops a node with SIGTERM, and checks its exit and its log.
func (c *trio) stop(t *testing.T, id string) {
	t.Helper()
	s := c.nodes[id]
	delete(c.nodes, id)
	s.stop(t)
}

// restart starts a node that has exited, and waits until there is a leader.
func (c *trio) restart(t *testing.T, id string) {
	t.Helper()
	c.launch(t, id)
	c.nodes[id].awaitReady(t)
	c.awaitLeader(t)
}

// awaitLeader waits until all running nodes agree on the leader and know the client ports
// of every node, and until the leader is in contact with all other running nodes. It returns the
// leader.
func (c *trio) awaitLeader(t *testing.T) (leader string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		leader = ""
		for id, s := range c.nodes {
			// tryAsk opens a new connection each time, since a deposed leader closes connections.
			text, err := s.tryAsk(ctx, "CL.CLUSTER", "NODES")
			if err != nil {
				return err
			}
			nodes := fmt.Sprint(text)
			if strings.Count(nodes, "sentinel-port="+portForSentinel) != len(trioIDs) {
				return fmt.Errorf("%s does not know all ports: %s", id, nodes)
			}
			found := leaderInNodes.FindStringSubmatch(nodes)
			if found == nil || leader != "" && found[1] != leader {
				return fmt.Errorf("%s reports no leader, or a leader other than %q: %s", id, leader, nodes)
			}
			leader = found[1]
			if id == leader && strings.Count(nodes, "answers=yes") != len(c.nodes)-1 {
				return fmt.Errorf("%s is not in contact with all nodes: %s", id, nodes)
			}
		}
		if c.nodes[leader] == nil {
			return fmt.Errorf("the leader %s is not running", leader)
		}
		return nil
	})
	return leader
}

var leaderInNodes = regexp.MustCompile(`(n\d) raft=\S+ role=leader`)

// followers returns the running nodes that do not lead.
func (c *trio) followers(t *testing.T) (list []string) {
	t.Helper()
	leader := c.awaitLeader(t)
	for _, id := range trioIDs {
		if id != leader && c.nodes[id] != nil {
			list = append(list, id)
		}
	}
	return list
}

// transfer transfers the leadership to a node.
func (c *trio) transfer(t *testing.T, to string) {
	t.Helper()
	if got := c.nodes[c.awaitLeader(t)].ask(t, "CL.CLUSTER", "TRANSFER", to); got != "OK" {
		t.Errorf("CL.CLUSTER TRANSFER %s: got %v, want OK", to, got)
	}
	eventually(t, func(context.Context) error {
		if leader := c.awaitLeader(t); leader != to {
			return fmt.Errorf("the leader is %s, want %s", leader, to)
		}
		return nil
	})
}

// nodeLog matches the log lines that a node of a cluster may write: all lines of the level INFO, and
// warnings and errors with these causes. Raft logs unreachable nodes in detail, and streams to
// restarted nodes fail. Heartbeats are slow on a busy machine. A restarted node with data refuses the
// Raft streams of another node, or closes its open streams, until the rejoin check of that other node
// is done.
var nodeLog = regexp.MustCompile(`^time=\S+ level=(INFO |(WARN|ERROR) msg="raft: |WARN msg="leadership was not handed over"|` +
	`WARN msg="refused a connection"|WARN msg="a heartbeat was slow: |WARN msg="closed a stream of a node" node=n\d purpose=raft reason="streams of this purpose are not allowed for the node: )`)

// checkNodeLog checks that a node has stopped properly, and that its log has no warnings
// except those from Raft and the allowed ones.
func (s *server) checkNodeLog(t *testing.T) {
	t.Helper()
	lines := strings.Split(s.log(), "\n")
	for _, line := range lines {
		if !nodeLog.MatchString(line) && !slices.ContainsFunc(s.allowed, func(re *regexp.Regexp) bool { return re.MatchString(line) }) {
			t.Errorf("unexpected log line of %s: %s", s.addr, line)
		}
	}
	if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, "level=INFO msg=stopped") }) {
		t.Errorf("%s did not stop properly; log:\n%s", s.addr, s.log())
	}
}
