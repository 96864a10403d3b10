package transport

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/cluster/transport/certs"
)

// victimDir is the environment variable that makes the test binary run a node to be attacked, see
// beVictim. The value is the directory of the certificates.
const victimDir = "TRANSPORT_VICTIM_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimDir); dir != "" {
		fmt.Fprintln(os.Stderr, beVictim(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// beVictim runs the leader of a cluster of one node. It prints the address of the node, and
// returns when standard input is closed.
func beVictim(dir string) error {
	cfg := plain("n1")
	cfg.Insecure = false
	cfg.CertFile, cfg.KeyFile = certs.Files(dir, "n1")
	cfg.CAFile, _ = certs.CAFiles(dir)
	l, err := Listen(cfg)
	if err != nil {
		return err
	}
	r, err := newRaft(l, quick)
	if err != nil {
		return err
	}
	if err := bootstrap(r, l); err != nil {
		return err
	}
	<-r.leads
	fmt.Println(l.ln.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(errors.New("victim: it was not killed"), err)
}

// attack is a way to send bytes to Raft. The function try sends them, and returns when the node has
// closed the connection.
type attack struct {
	name string
	try  func(t *testing.T, l *Link, rpc []byte)
}

// attacks returns the attacks, each named after the credentials of the attacker. The target is node
// n1 of the site. Node n2 is a node of the cluster, and its certificate is the good one. Node n4 was
// removed from the cluster.
func attacks(s *site) []attack {
	now := time.Now()
	good := loaded(s.t, s.issue("n2", "c1", now))
	removed := loaded(s.t, s.issue("n4", "c1", now))
	twin := loaded(s.t, s.issue("n1", "c1", now))
	stranger := loaded(s.t, newSite(s.t).issue("n2", "c1", now))
	otherCluster := loaded(s.t, s.issue("n2", "c2", now))
	expired := loaded(s.t, s.issue("n2", "c1", now.AddDate(0, 0, -2)))
	hi := hello{Raft, "c1", "n2", "n1", neverRecovered}.encode()

	over := func(name string, c *tls.Config, first ...[]byte) attack {
		return attack{name, func(t *testing.T, l *Link, rpc []byte) {
			t.Helper()
			secure := tls.Client(connect(t, l), c)
			_, _ = secure.Write(slices.Concat(append(first, rpc)...)) // the connection may have been refused by now
			closed(t, secure)
		}}
	}
	bare := func(name string, first ...[]byte) attack {
		return attack{name, func(t *testing.T, l *Link, rpc []byte) {
			t.Helper()
			c := connect(t, l)
			_, _ = c.Write(slices.Concat(append(first, rpc)...))
			closed(t, c)
		}}
	}
	wrong := func(name string, h hello) attack { return over("good certificate, "+name, withCert(good), h.encode()) }
	old := withCert(good)
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	return []attack{
		bare("TCP"),
		bare("TCP with a greeting", hi),
		over("no certificate", withCert(), hi),
		over("certificate of another CA", withCert(stranger), hi),
		over("certificate of another cluster", withCert(otherCluster), hello{Raft, "c2", "n2", "n1", neverRecovered}.encode()),
		over("certificate of another cluster, greeting of this", withCert(otherCluster), hi),
		over("expired certificate", withCert(expired), hi),
		over("TLS 1.2", old, hi),
		over("good certificate, no greeting", withCert(good)),
		over("good certificate, other version", withCert(good), []byte("THRH\x03"), hi[5:]),
		wrong("other cluster", hello{Raft, "c2", "n2", "n1", neverRecovered}),
		wrong("other node", hello{Raft, "c1", "n3", "n1", neverRecovered}),
		wrong("node that is attacked", hello{Raft, "c1", "n1", "n1", neverRecovered}),
		wrong("other node intended", hello{Raft, "c1", "n2", "n3", neverRecovered}),
		wrong("no purpose", hello{Purpose(0), "c1", "n2", "n1", neverRecovered}),
		over("certificate of a removed node", withCert(removed), hello{Raft, "c1", "n4", "n1", neverRecovered}.encode()),
		over("certificate of the node itself", withCert(twin), hello{Raft, "c1", "n1", "n1", neverRecovered}.encode()),
		{"stream for control", func(t *testing.T, l *Link, rpc []byte) {
			t.Helper()
			secure := connectTLS(t, l, withCert(good))
			if _, err := secure.Write(append(hello{Control, "c1", "n2", "n1", neverRecovered}.encode(), rpc...)); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(rpc))
			if _, err := io.ReadFull(accepted(t, l, Control), got); err != nil || !bytes.Equal(got, rpc) {
				t.Errorf("the attacked node reads %q from the Control stream, error %v; want the forged message unchanged", got, err)
			}
		}},
	}
}

// TestAttacks sends each forged message by each attack. The leader must ignore all of them, and log
// few lines.
func TestAttacks(t *testing.T) {
	s := newSite(t)
	var log lines
	today := time.Now() // constant, so that all log lines are within one minute
	l := s.link("n1", func(c *Config) { c.Log, c.Now = log.logger(), func() time.Time { return today } })
	l.SetAllowed(func(node string, _ Purpose) bool { return node != "n4" })
	r := alone(t, l)
	term, servers := r.CurrentTerm(), r.servers(t)
	for _, a := range attacks(s) {
		for name, rpc := range forged() {
			t.Run(a.name+"/"+name, func(t *testing.T) {
				a.try(t, l, rpc)
				if err := r.Apply(nil, patience).Error(); err != nil {
					t.Errorf("after the attack, Apply returns %v; want nil", err)
				}
				if got := r.CurrentTerm(); r.State() != raft.Leader || got != term {
					t.Fatalf("after the attack, the node is %v in term %d; before, it was leader in term %d", r.State(), got, term)
				}
				if got := r.servers(t); !slices.Equal(got, servers) {
					t.Fatalf("after the attack, the servers are %v; before, they were %v", got, servers)
				}
			})
		}
	}
	select {
	case leads := <-r.leads:
		t.Errorf("leadership has changed; the node leads: %v", leads)
	default:
	}
	refusals := log.with("refused a connection")
	if len(refusals) > len(reasons)+1 { // one line for each kind, and one for all errors without a code
		t.Errorf("the log has %d lines about refused connections; want at most one for each kind:\n%s", len(refusals), strings.Join(refusals, ""))
	}
	for _, want := range []error{ErrOtherCluster, ErrCertificate, ErrOtherNode, ErrNotServed, ErrNotAllowed, ErrVersion, ErrGreeting} {
		if len(log.with(want.Error())) != 1 {
			t.Errorf("the log does not have exactly one line with %v:\n%s", want, strings.Join(refusals, ""))
		}
	}
}

// send sends a forged message as a node of the cluster, so that it is accepted.
func send(t *testing.T, from *Link, addr string, rpc []byte) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := from.Dial(ctx, "n1", addr, Raft)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(rpc); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestAttacksWouldWork checks that the forged messages do harm if they reach Raft.
// Otherwise TestAttacks would not be meaningful.
func TestAttacksWouldWork(t *testing.T) {
	s := newSite(t)
	insider := s.link("n2")
	t.Run("vote", func(t *testing.T) {
		l := s.link("n1")
		r := alone(t, l)
		// 0xa0 encodes an empty error: Raft has processed the request.
		if b, err := bufio.NewReader(send(t, insider, l.ln.Addr().String(), forged()["vote"])).ReadByte(); err != nil || b != 0xa0 {
			t.Fatalf("the answer begins with %#x, error %v; want 0xa0", b, err)
		}
		r.expectTerm(t, math.MaxUint64)
	})
	t.Run("snapshot of other peer", func(t *testing.T) {
		l := s.link("n1")
		r := alone(t, l)
		if b, err := bufio.NewReader(send(t, insider, l.ln.Addr().String(), forged()["snapshot of other peer"])).ReadByte(); err != nil || b != 0xa0 {
			t.Fatalf("the answer begins with %#x, error %v; want 0xa0", b, err)
		}
		if got := r.servers(t); len(got) != 1 || got[0] != evil {
			t.Errorf("the servers are %v; want only %v", got, evil)
		}
	})
	t.Run("snapshot with garbage", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), victimDir+"="+s.dir)
		var errs lines
		cmd.Stderr = &errs
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = stdin.Close() }()
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		addr, err := bufio.NewReader(stdout).ReadString('\n')
		if err != nil {
			t.Fatalf("the attacked process does not print its address: %v", err)
		}
		closed(t, send(t, insider, strings.TrimSpace(addr), forged()["snapshot with garbage"]))
		if err := cmd.Wait(); err == nil {
			t.Error("the attacked process exits without an error; want a failure")
		}
		if len(errs.with("failed to decode configuration")) == 0 {
			t.Errorf("the attacked process exits with the output %s; want the text \"failed to decode configuration\"", errs.buf.String())
		}
	})
}

// expectTerm checks that the term of a node is want or want+1, and that the node is not the leader.
// The term after the highest one is 0, because of an overflow.
func (r *raftNode) expectTerm(t *testing.T, want uint64) {
	t.Helper()
	if got := r.CurrentTerm(); got != want && got != want+1 {
		t.Errorf("the term is %d; want %d or the next term", got, want)
	}
	if r.State() == raft.Leader {
		t.Error("the node is the leader; want it to have lost its leadership")
	}
}
