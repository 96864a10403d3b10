package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/cluster/transport"
	"github.com/throttledhq/throttled/cluster/transport/certs"
)

// strangerID is the id of a node that never joins.
const strangerID = "n99"

// rogueWithin is the timeout for a node to refuse a request.
const rogueWithin = 5 * time.Second

// harmful lists commands that must not be authorized by a certificate alone.
var harmful = []string{"CONFIG SET requirepass secret", "FLUSHALL", "CL.CLUSTER REMOVE n3", "CONFIG SET maxclients 1", "SHUTDOWN NOSAVE"}

// rogue attacks a cluster under load, using the certificates and private keys of a removed node, of
// a node that never joined, and of a member. No command may be executed, and no leader may be deposed.
func rogue(ctx context.Context, l *lab) error {
	return l.withTrial(ctx, plan{}, func(ctx context.Context, t *trial) error {
		t.quiet = true
		n, err := t.join(ctx)
		if err != nil {
			return err
		}
		if err := t.remove(ctx, n); err != nil {
			return err
		}
		if _, err := t.awaitLeader(ctx); err != nil {
			return err
		}
		before := t.watch.changes()
		tries, accepted := 0, 0
		for range l.repeated(10, 50) {
			for _, attack := range []func(context.Context) (int, []string, error){
				func(ctx context.Context) (int, []string, error) { return t.attackAs(ctx, n.id) },
				func(ctx context.Context) (int, []string, error) { return t.attackAs(ctx, strangerID) },
				t.forge,
			} {
				count, found, err := attack(ctx)
				if err != nil {
					return err
				}
				tries, accepted = tries+count, accepted+len(found)
				for _, f := range found {
					l.out.found([]finding{{"rogue", f}})
				}
			}
		}
		l.out.note("attacks", "%d", tries)
		l.out.atMost("attacks that had an effect", float64(accepted), 0, "")
		l.out.atMost("leader changes", float64(t.watch.changes()-before), 0, "")
		return t.healthy(ctx, startWithin)
	})
}

// key opens a link with the certificate of a node. For strangerID it creates the certificate.
func (c *cluster) key(id string) (*transport.Link, error) {
	dir := filepath.Join(c.dir, "certs")
	cert, key := certs.Files(dir, id)
	ca, _ := certs.CAFiles(dir)
	if id == strangerID {
		if err := run(exec.Command(c.lab.bin, "certs", "--dir", dir, "--cluster", "chaos", "--renew", id)); err != nil {
			return nil, err
		}
	}
	return transport.Listen(transport.Config{
		Cluster: "chaos", Node: id, Bind: "127.0.0.1:0", CertFile: cert, KeyFile: key, CAFile: ca, Log: slog.New(slog.DiscardHandler),
	})
}

// attackAs sends harmful commands and a vote request to all nodes, using the key of a node that is
// not a member. It returns the number of attempts, and descriptions of the attempts that succeeded.
func (t *trial) attackAs(ctx context.Context, id string) (tries int, found []string, err error) {
	l, err := t.key(id)
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	for _, n := range t.nodes {
		for _, command := range harmful {
			tries++
			if reply, err := order(ctx, l, n, command); err == nil {
				found = append(found, fmt.Sprintf("%s replies to %s of %s: %q", n.id, command, id, reply))
			} else if !errors.Is(err, transport.ErrNotAllowed) {
				return tries, found, err
			}
		}
		tries++
		if err := n.receives(l, &raft.RequestVoteRequest{Term: math.MaxUint64, LeadershipTransfer: true}); err == nil {
			found = append(found, fmt.Sprintf("%s votes for %s", n.id, id))
		}
	}
	return tries, found, nil
}

// order sends a command to a node over a stream between nodes. It returns the beginning of
// the reply. If sending or reading fails, it returns the text of that error as the reply. The result err
// is the error of opening the stream.
func order(ctx context.Context, l *transport.Link, n *node, command string) (reply string, err error) {
	ctx, cancel := context.WithTimeout(ctx, rogueWithin)
	defer cancel()
	conn, err := l.Dial(ctx, n.id, n.raftAddr(), transport.Client)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(rogueWithin)) // does not fail, as the stream is open
	if reply, err = inline(conn, command); err != nil {
		reply = err.Error()
	}
	return reply, nil
}

// inline sends a command and returns the first bytes of the reply.
func inline(conn net.Conn, command string) (string, error) {
	words := strings.Fields(command)
	text := fmt.Sprintf("*%d\r\n", len(words))
	for _, w := range words {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(w), w)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		return "", err
	}
	var buf [256]byte
	size, err := conn.Read(buf[:])
	return string(buf[:size]), err
}

// receives sends a Raft message to a node. It returns nil if the node accepts the message, and
// otherwise the error with which the node refused it.
func (n *node) receives(l *transport.Link, message any) error {
	l.SetExpected(func(string) string { return n.id })
	trans := raft.NewNetworkTransport(l.Raft(), 1, rogueWithin, io.Discard)
	defer func() { _ = trans.Close() }() // always returns nil
	to, id := raft.ServerAddress(n.raftAddr()), raft.ServerID(n.id)
	switch m := message.(type) {
	case *raft.RequestVoteRequest:
		return trans.RequestVote(id, to, m, new(raft.RequestVoteResponse))
	case *raft.AppendEntriesRequest:
		return trans.AppendEntries(id, to, m, new(raft.AppendEntriesResponse))
	case *raft.TimeoutNowRequest:
		return trans.TimeoutNow(id, to, m, new(raft.TimeoutNowResponse))
	}
	return fmt.Errorf("no encoding for %T", message)
}

// forge sends messages with forged senders and high terms, using the key of a follower.
func (t *trial) forge(ctx context.Context) (tries int, found []string, err error) {
	thief, err := t.follower(ctx, t.lab.random)
	if err != nil {
		return 0, nil, err
	}
	l, err := t.key(thief.id)
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	header := func(n *node) raft.RPCHeader {
		return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(n.id), Addr: []byte(n.raftAddr())}
	}
	own, nobody := header(thief), header(thief)
	nobody.ID = nil
	for _, n := range t.nodes {
		if n == thief {
			continue
		}
		for i, message := range []any{
			&raft.RequestVoteRequest{RPCHeader: nobody, Term: math.MaxUint64, LeadershipTransfer: true},
			&raft.RequestVoteRequest{RPCHeader: nobody, Term: 1000, LastLogIndex: 1 << 40, LastLogTerm: 999, LeadershipTransfer: true},
			&raft.RequestVoteRequest{RPCHeader: own, Term: math.MaxUint64, LastLogIndex: 1 << 40, LastLogTerm: 999, LeadershipTransfer: true},
			&raft.AppendEntriesRequest{RPCHeader: header(n), Term: 1000},
			&raft.AppendEntriesRequest{RPCHeader: own, Term: 1 << 40},
			&raft.TimeoutNowRequest{RPCHeader: header(n)},
		} {
			tries++
			if n.receives(l, message) == nil {
				found = append(found, fmt.Sprintf("%s accepts forged message %d of %s", n.id, i, thief.id))
			}
		}
	}
	return tries, found, nil
}

// flushedByStranger sends FLUSHALL with the key of a node that never joined.
func flushedByStranger(ctx context.Context, t *trial, _ *rand.Rand) error {
	leader, err := t.awaitLeader(ctx)
	if err != nil {
		return err
	}
	l, err := t.key(strangerID)
	if err != nil {
		return err
	}
	reply, err := order(ctx, l, leader, "FLUSHALL")
	t.note("FLUSHALL by a stranger on %s: %q, %v", leader.id, reply, err)
	return l.Close()
}
