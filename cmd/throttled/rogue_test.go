package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/cluster/transport"
	"github.com/throttledhq/throttled/cluster/transport/certs"
)

// authority creates the certificates of a cluster.
type authority struct {
	t   *testing.T
	dir string
}

func newAuthority(t *testing.T) *authority { return &authority{t, t.TempDir()} }

// args creates the certificate of a node and returns the options that use it. The list of
// revoked certificates is empty.
func (a *authority) args(id string) []string {
	a.t.Helper()
	a.make(id)
	cert, key := certs.Files(a.dir, id)
	ca, _ := certs.CAFiles(a.dir)
	a.revoke("")
	return []string{"--raft-tls-cert", cert, "--raft-tls-key", key, "--raft-tls-ca", ca, "--raft-tls-revoked", a.revoked()}
}

func (a *authority) make(id string) {
	a.t.Helper()
	if code := words("certs").run(a.t.Context(), []string{"--dir", a.dir, "--cluster", "test", "--renew", id}, io.Discard, os.Stderr); code != exitOK {
		a.t.Fatalf("throttled certs exits with %d; want 0", code)
	}
}

func (a *authority) revoked() string { return filepath.Join(a.dir, "revoked") }

// revoke replaces the list of revoked certificates.
func (a *authority) revoke(text string) {
	a.t.Helper()
	temporary := a.revoked() + ".new"
	if err := errors.Join(os.WriteFile(temporary, []byte(text), 0o600), os.Rename(temporary, a.revoked())); err != nil {
		a.t.Fatal(err)
	}
}

// rogue opens a link with the certificate and the key of a node. The link can open streams to other nodes as that node.
func (a *authority) rogue(id string) *transport.Link {
	a.t.Helper()
	c := transport.Config{Cluster: "test", Node: id, Bind: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)}
	c.CertFile, c.KeyFile = certs.Files(a.dir, id)
	c.CAFile, _ = certs.CAFiles(a.dir)
	l, err := transport.Listen(c)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = l.Close() })
	return l
}

// opens opens a stream to a node. It returns nil if the stream is refused with ErrNotAllowed.
func opens(t *testing.T, from *transport.Link, to *process, p transport.Purpose) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := from.Dial(ctx, to.id, to.raft, p)
	if errors.Is(err, transport.ErrNotAllowed) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// reply sends a command over a stream and returns the first line of the reply.
func reply(t *testing.T, c net.Conn, args ...string) string {
	t.Helper()
	command := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, arg := range args {
		command = fmt.Appendf(command, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := c.Write(command); err != nil {
		t.Fatalf("send %v: %v", args, err)
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		t.Fatalf("read the reply to %v: %v", args, err)
	}
	return line
}

// harmful lists commands that damage a cluster.
var harmful = [][]string{{"CONFIG", "SET", "requirepass", ""}, {"FLUSHALL"}, {"CL.CLUSTER", "REMOVE", "n3"}, {"DEBUG", "SLEEP", "1"}, {"SHUTDOWN", "NOSAVE"}}

// TestProcess_Rogue uses the certificates of a removed node and of a node that never joined. Streams that the removed
// node opened before its removal must be closed. After the removal, the cluster must accept no stream from either node,
// neither for commands nor for Raft.
func TestProcess_Rogue(t *testing.T) {
	ca := newAuthority(t)
	patient := []string{"--raft-heartbeat", "1000", "--requirepass", ""} // avoids elections on a busy machine
	all := startProcesses(t, []string{"n1", "n2", "n3"}, func(id string) []string { return append(ca.args(id), patient...) })
	leader, _ := leaderOf(t, all)
	ca.make("n9")
	n4 := newJoining(t, "n4", leader, append(append(ca.args("n4"), "--raft-insecure", "no"), patient...)...)
	leader.askUntil("voters:4 ", "CL.CLUSTER", "STATUS")
	n4.kill()
	leader.askUntil("[0 ", "CL.THROTTLE", "k", "0", "1", "1h")

	removed, stranger := ca.rogue("n4"), ca.rogue("n9")
	var had []net.Conn // opened while n4 was a member
	for _, p := range all {
		for _, purpose := range []transport.Purpose{transport.Raft, transport.Client} {
			c := opens(t, removed, p, purpose)
			if c == nil {
				t.Fatalf("%s refuses a stream from a member with the purpose %s; want a stream", p.id, purpose)
			}
			had = append(had, c)
		}
	}
	leader.askUntil("OK", "CL.CLUSTER", "REMOVE", "n4")
	for _, c := range had {
		if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("the stream of a removed node stays open")
		}
	}

	for _, rogue := range []*transport.Link{removed, stranger} {
		for _, p := range all {
			for _, command := range harmful {
				if c := opens(t, rogue, p, transport.Client); c != nil {
					t.Errorf("%s accepts a stream from a rogue and answers %v with %q; want no stream", p.id, command, reply(t, c, command...))
				}
			}
			if c := opens(t, rogue, p, transport.Raft); c != nil {
				t.Errorf("%s accepts a Raft stream from a rogue; want no stream", p.id)
			}
		}
	}
	for _, p := range all {
		p.askUntil("nodes:3 ", "CL.CLUSTER", "STATUS")
		p.askUntil("leader:"+leader.id+" ", "CL.CLUSTER", "STATUS")
		p.askUntil("[1 ", "CL.THROTTLE", "k", "0", "1", "1h")
	}
}

// TestProcess_StolenKey uses the key of a member in another process, the thief. The thief can send the commands that
// nodes forward, but no others, and its vote requests must be refused. After the certificate is revoked, neither the
// thief nor the member can connect. With a new certificate, the member can rejoin.
func TestProcess_StolenKey(t *testing.T) {
	ca := newAuthority(t)
	all := startProcesses(t, []string{"n1", "n2", "n3"}, func(id string) []string {
		return append(ca.args(id), "--raft-heartbeat", "1000")
	})
	leader, others := leaderOf(t, all)
	others[1].kill()
	thief := ca.rogue(others[1].id)
	c := opens(t, thief, leader, transport.Client)
	if got := reply(t, c, "DBSIZE"); got[0] != ':' {
		t.Errorf("DBSIZE, which nodes forward, is answered with %q, want an integer", got)
	}
	for _, command := range [][]string{
		{"CONFIG", "SET", "requirepass", ""}, {"CONFIG", "GET", "*"}, {"SHUTDOWN", "NOSAVE"}, {"MONITOR"}, {"CLIENT", "KILL", "TYPE", "normal"},
		{"SUBSCRIBE", "c"}, {"INFO"}, {"CL.CLUSTER", "HASH"}, {"SLOWLOG", "GET"}, {"BGSAVE"},
	} {
		if got := reply(t, c, command...); !strings.Contains(got, "is not accepted from another node") {
			t.Errorf("%v is answered with %q, want a refusal", command, got)
		}
	}

	trans := raft.NewNetworkTransport(thief.Raft(), 1, 5*time.Second, io.Discard)
	defer func() { _ = trans.Close() }()
	thief.SetExpected(func(string) string { return leader.id })
	own := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(others[1].id), Addr: []byte(others[1].raft)}
	anonymous, other := own, own
	anonymous.ID = nil
	other.ID, other.Addr = []byte(others[0].id), []byte(others[0].raft)
	for _, h := range []raft.RPCHeader{own, anonymous, other} {
		q := raft.RequestVoteRequest{RPCHeader: h, Term: 1<<64 - 1, LastLogIndex: 1 << 40, LastLogTerm: 1 << 40, LeadershipTransfer: true}
		err := trans.RequestVote(raft.ServerID(leader.id), raft.ServerAddress(leader.raft), &q, new(raft.RequestVoteResponse))
		if err == nil {
			t.Errorf("a vote request in the name of %q for term 2^64-1 is answered, want an error", h.ID)
		}
	}
	leader.askUntil("leader:"+leader.id+" ", "CL.CLUSTER", "STATUS")
	leader.askUntil("[0 ", "CL.THROTTLE", "k", "0", "1", "1h")

	serial, err := certs.Serial(ca.dir, others[1].id)
	if err != nil {
		t.Fatal(err)
	}
	ca.revoke("not a number\n")
	leader.waitLog("cannot read the list of revoked certificates")
	ca.revoke("# stolen\n" + serial + " # " + others[1].id + "\n")
	if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the stream of a revoked certificate stays open")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, p := range []*process{leader, others[0]} {
		p.waitLog("loaded the list of revoked certificates")
		for _, purpose := range []transport.Purpose{transport.Raft, transport.Client, transport.Control} {
			if _, err := thief.Dial(ctx, p.id, p.raft, purpose); !errors.Is(err, transport.ErrCertificate) {
				t.Errorf("dialing %s with a revoked certificate and the purpose %s: error %v, want ErrCertificate", p.id, purpose, err)
			}
		}
	}
	others[1].start()
	if code, _ := others[1].waitExit(patience); code == exitOK || !strings.Contains(others[1].log.String(), "throttled certs --renew") {
		t.Errorf("a node with a revoked certificate exits with %d, want an error and \"throttled certs --renew\" in its log:\n%s", code, others[1].log)
	}
	ca.make(others[1].id)
	others[1].start()
	others[1].askUntil("leader:"+leader.id+" ", "CL.CLUSTER", "STATUS")
}

// TestProcess_MissedAMember restarts a node that was down while another node joined and became the leader. The
// restarted node must follow this leader, although its stored configuration does not contain the leader.
func TestProcess_MissedAMember(t *testing.T) {
	ca := newAuthority(t)
	patient := []string{"--raft-heartbeat", "1000"}
	all := startProcesses(t, []string{"n1", "n2", "n3"}, func(id string) []string { return append(ca.args(id), patient...) })
	leader, others := leaderOf(t, all)
	away := others[0]
	leader.askUntil("[0 ", "CL.THROTTLE", "k", "0", "1", "1h")
	away.kill()
	n4 := newJoining(t, "n4", leader, append(append(ca.args("n4"), "--raft-insecure", "no"), patient...)...)
	leader.askUntil("voters:4 ", "CL.CLUSTER", "STATUS")
	leader.askUntil("OK", "CL.CLUSTER", "TRANSFER", "n4")
	n4.askUntil("leader:n4 ", "CL.CLUSTER", "STATUS")
	away.start()
	away.askUntil("leader:n4 ", "CL.CLUSTER", "STATUS")
	away.askUntil("nodes:4 ", "CL.CLUSTER", "STATUS")
	away.askUntil("[1 ", "CL.THROTTLE", "k", "0", "1", "1h")
}
