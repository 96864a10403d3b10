package transport

import (
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttledhq/throttled/topology"
)

// neverRecovered is the data version of a node with an unknown boot number, in a cluster that was never recovered.
var neverRecovered = dataVersion{version: version}

const (
	firstRecovery  topology.Recovery = "1-00000000000000aa"
	secondRecovery topology.Recovery = "2-00000000000000bb"
)

// recovered opens the link of a node with the given recovery. If r is unknownRecovery, the node does
// not know its recovery yet.
func recovered(t *testing.T, node string, r topology.Recovery) *Link {
	t.Helper()
	l := open(t, plain(node))
	if r != unknownRecovery {
		l.SetRecovery(r)
	}
	return l
}

// TestRecoveries opens streams of each purpose between nodes of the same and of different recoveries,
// and checks which streams are accepted.
func TestRecoveries(t *testing.T) {
	for _, tt := range []struct {
		a, b    topology.Recovery
		control bool // Control streams are accepted
		all     bool // streams of the purposes Raft and Client are accepted
	}{
		{"", "", true, true},
		{firstRecovery, firstRecovery, true, true},
		{unknownRecovery, unknownRecovery, true, true},
		{unknownRecovery, "", true, true},
		{unknownRecovery, firstRecovery, true, false},
		{"", firstRecovery, false, false},
		{firstRecovery, secondRecovery, false, false},
	} {
		for _, pair := range [][2]topology.Recovery{{tt.a, tt.b}, {tt.b, tt.a}} {
			from, to := recovered(t, "n1", pair[0]), recovered(t, "n2", pair[1])
			for p, want := range map[Purpose]bool{Control: tt.control, Raft: tt.all, Client: tt.all} {
				c, err := dial(t, from, "n2", to, p)
				if (err == nil) != want {
					t.Errorf("%s stream from recovery %q to %q: Dial returns %v; want an error instead of nil, or nil instead of an error", p, pair[0], pair[1], err)
				}
				if err == nil {
					flows(t, c, accepted(t, to, p))
					continue
				}
				var other *RecoveryError
				if !errors.As(err, &other) || !errors.Is(err, ErrRefused) || !errors.Is(err, ErrOtherRecovery) {
					t.Errorf("%s stream from recovery %q to %q: Dial returns %v; want a RecoveryError and ErrRefused", p, pair[0], pair[1], err)
				} else if pair[1] != unknownRecovery && other.Theirs != pair[1] || pair[0] != unknownRecovery && other.Ours != pair[0] || other.Node != "n2" {
					t.Errorf("%s stream from recovery %q to %q: the error is %+v; want the node n2 and both recoveries", p, pair[0], pair[1], other)
				}
			}
		}
	}
}

// TestOutdated checks that streams to and from a node with outdated data are refused, except Control streams.
// An open stream must be closed when the data of its node becomes outdated.
func TestOutdated(t *testing.T) {
	var newest atomic.Uint64
	newest.Store(3)
	aware := open(t, plain("n1"))
	aware.SetCurrent(func(node string, boot uint64) bool { return node != "n2" || boot >= newest.Load() })
	for boot, want := range map[uint64]bool{0: true, 2: false, 3: true, 4: true} {
		n2 := open(t, plain("n2"), func(c *Config) { c.Boot = boot })
		for _, p := range []Purpose{Raft, Client} {
			for _, pair := range [][2]*Link{{n2, aware}, {aware, n2}} {
				c, err := dial(t, pair[0], pair[1].cfg.Node, pair[1], p)
				if (err == nil) != want || err != nil && !errors.Is(err, ErrOutdated) {
					t.Errorf("n2 has boot number %d; %s stream dialed by %s: Dial returns %v; want ErrOutdated only if the boot number is 2", boot, p, pair[0].cfg.Node, err)
				}
				if err == nil {
					flows(t, c, accepted(t, pair[1], p))
				} else if pair[0] == aware { // the peer has already accepted the stream
					closed(t, accepted(t, n2, p))
				}
			}
		}
		out, in := dialed(t, n2, aware, Control) // Control streams are always accepted
		flows(t, out, in)
	}
	out, in := dialed(t, open(t, plain("n2"), func(c *Config) { c.Boot = 3 }), aware, Raft)
	aware.Recheck()
	flows(t, out, in)
	newest.Store(4)
	aware.Recheck()
	_ = out.SetDeadline(time.Now().Add(patience))
	closed(t, out)
	aware.SetCurrent(nil)
	dialed(t, open(t, plain("n2"), func(c *Config) { c.Boot = 1 }), aware, Raft)
}

// listenAsOldVersion starts a listener that answers each hello like a node of the previous version.
func listenAsOldVersion(t *testing.T) (ln net.Listener) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	const longestThen = 1 + 3*41
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			var buf [headerSize + 255]byte
			n, _ := c.Read(buf[:])
			reply := "THRA\x01\x07\x00\x02c1\x02n2"
			switch {
			case buf[headerSize-1] > longestThen:
				reply = "THRA\x01\x07\x08\x02c1\x02n2"
			case buf[headerSize-2] != oldVersion:
				reply = "THRA\x01\x07\x07\x02c1\x02n2"
			case n != headerSize+1+3+3+3:
				reply = "THRA\x01\x07\x08\x02c1\x02n2"
			}
			_, _ = c.Write([]byte(reply))
			if reply[6] != 0 {
				_ = c.Close()
			}
		}
	}()
	return ln
}

// TestOldVersion checks that nodes of this version and the previous version accept each
// other, unless the cluster was recovered.
func TestOldVersion(t *testing.T) {
	old := listenAsOldVersion(t)
	for r, want := range map[topology.Recovery]bool{"": true, unknownRecovery: true, firstRecovery: false} {
		l := recovered(t, "n1", r)
		for _, p := range []Purpose{Raft, Client, Control} {
			c, err := l.Dial(t.Context(), "n2", old.Addr().String(), p)
			if (err == nil) != want || err != nil && !errors.Is(err, ErrVersion) {
				t.Errorf("recovery %q, %s stream to a node of the previous version: Dial returns %v; want ErrVersion only after a recovery", r, p, err)
			}
			if err == nil {
				_ = c.Close()
			}
			in := connect(t, l)
			if _, err := in.Write([]byte("THRH\x01\x0a" + string(rune(p)) + "\x02c1\x02n2\x02n1")); err != nil {
				t.Fatal(err)
			}
			a, err := readAnswer(in)
			if err != nil || a.version != oldVersion || (a.code == codeOK) != want || !want && a.code != codeVersion {
				t.Errorf("recovery %q, %s stream from a node of the previous version: the answer is %+v, error %v; want codeVersion only after a recovery", r, p, a, err)
			}
		}
	}
	long := strings.Repeat("n", 40)
	l := open(t, plain(long), func(c *Config) { c.Cluster, c.Boot = long, 1<<63 })
	if _, err := l.Dial(t.Context(), "", old.Addr().String(), Control); !errors.Is(err, ErrGreeting) && !errors.Is(err, ErrOtherCluster) {
		t.Errorf("with names of 40 bytes, Dial returns %v; want ErrGreeting or ErrOtherCluster", err)
	}
}
