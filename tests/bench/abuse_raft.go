package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/cluster/transport/certs"
)

const (
	raftRate      = 4_000    // connections per second
	raftConns     = 10_000   // bar for the connections of all rounds
	raftMemory    = 64 << 20 // bytes of RSS, more than before
	raftStrangers = 100      // handshakes without a certificate
)

// hostileTexts lists the first bytes of clients of the Raft port: messages of Raft that would end the leadership of a node or
// replace its state (a vote, entries and a snapshot of the largest term: the kind, then MessagePack), other protocols, and
// nothing.
var hostileTexts = [][]byte{
	[]byte("\x01\x82\xa4Term\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xb2LeadershipTransfer\xc3"),
	[]byte("\x00\x82\xa4Term\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xb1LeaderCommitIndex\xcf\xff\xff\xff\xff\xff\xff\xff\xff"),
	[]byte("\x02\x83\xa4Term\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xadConfiguration\xc4\x04junk\xa4Size\x04junk"),
	[]byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
	[]byte("CL.CLUSTER NODES\r\n"),
	[]byte("\x16\x03\x01\xff\xff\x01junk"),
	nil,
}

// raftPort measures other clients of a node beside connections to its Raft port by clients without a certificate. The state
// of the node must not change.
func (a *abuser) raftPort() (err error) {
	dir, err := os.MkdirTemp("", "throttled-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	addrs, err := freeAddrs(1)
	if err != nil {
		return err
	}
	args, err := raftArgs(dir, addrs[0])
	if err != nil {
		return err
	}
	return a.withVictim(args, func(v *victim) error { return a.attackRaft(v, addrs[0]) })
}

// raftArgs creates the certificate of a node, and returns the options of a cluster of this node.
func raftArgs(dir, addr string) ([]string, error) {
	const id, cluster = "n1", "bench"
	ca, err := certs.NewCA(cluster, time.Now())
	if err != nil {
		return nil, err
	}
	pair, err := ca.Issue(id, cluster, 1, time.Now())
	if err = errors.Join(err, ca.Save(dir), pair.Save(dir, id)); err != nil {
		return nil, err
	}
	cert, key := certs.Files(dir, id)
	caFile, _ := certs.CAFiles(dir)
	return []string{
		"--data-dir", filepath.Join(dir, id), "--cluster-id", cluster, "--node-id", id, "--raft-addr", addr, "--bootstrap", id + "=" + addr,
		"--raft-tls-cert", cert, "--raft-tls-key", key, "--raft-tls-ca", caFile, "--raft-fsync", "no", "--cluster-port", "0", "--sentinel-port", "0",
	}, nil
}

func (a *abuser) attackRaft(v *victim, raft string) error {
	before, err := v.raftState()
	if err != nil {
		return err
	}
	most := sampleResident(v.pid())
	var n atomic.Int64
	err = a.beside(v, abuseP99, func(stop <-chan struct{}) error {
		return openAndKeep(raft, raftRate, stop, &n, func(i int64) []byte { return hostileTexts[i%int64(len(hostileTexts))] })
	})
	answered := 0
	for i := range raftStrangers {
		answered += countTrue(answers(raft, hostileTexts[i%3]))
	}
	a.atMost("RSS, more than before", mib(most()-v.base.rss), mib(raftMemory), "MiB")
	a.atLeast("connections", float64(n.Load()), raftConns, "")
	a.atMost("clients without a certificate that got a reply", float64(answered), 0, "")
	if err != nil {
		return err
	}
	after, err := v.raftState()
	a.note("before: %s", before)
	a.atMost("changes of the state", float64(countTrue(before != after)), 0, "")
	return err
}

// raftState returns the role, the term and the members of a node.
func (v *victim) raftState() (string, error) {
	term, err := v.info("replication", "raft_term")
	if err != nil {
		return "", err
	}
	role, err := v.command("ROLE")
	if err != nil {
		return "", err
	}
	nodes, err := v.command("CL.CLUSTER NODES")
	role, _, _ = strings.Cut(role, "\n")
	return fmt.Sprintf("%s, term %d, %s", role, term, strings.TrimSpace(nodes)), err
}

// answers reports whether a node replies to a client that has completed the handshake of TLS without a certificate.
func answers(addr string, message []byte) bool {
	c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(replyPatience))
	_, _ = c.Write(message) // fails if the node has closed the connection already
	_, err = c.Read(make([]byte, 1))
	return err == nil
}
