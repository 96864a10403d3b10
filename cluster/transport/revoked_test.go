package transport

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/cluster/transport/certs"
)

// revoking writes a list of revoked certificates. It returns a function that sets the list in a
// configuration, and a function that replaces the list.
func (s *site) revoking(text string) (change func(*Config), replace func(text string)) {
	s.t.Helper()
	s.write("revoked", []byte(text))
	file := filepath.Join(s.dir, "revoked")
	return func(c *Config) { c.RevokedFile = file }, func(text string) { s.write("revoked", []byte(text)) }
}

// hex returns the serial number of the certificate of a node, in the format of a list.
func (s *site) hex(node string) string {
	s.t.Helper()
	number, err := certs.Serial(s.dir, node)
	if err != nil {
		s.t.Fatal(err)
	}
	return number
}

// TestRevokedInPlace rewrites a list in place. The intermediate contents of the file must be ignored.
func TestRevokedInPlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "revoked")
	r := revocations{file: file}
	for _, step := range []struct {
		text    string
		changed bool
		serials int
	}{
		{"a1\nb2\n", true, 2}, // the first list
		{"a1\nb2\n", false, 2},
		{"", false, 2}, // truncated
		{"a1\nb2\nc", false, 2},
		{"a1\nb2\nc3\n", false, 2},
		{"a1\nb2\nc3\n", true, 3},
	} {
		if old, err := os.ReadFile(file); err != nil || string(old) != step.text {
			if err := os.WriteFile(file, []byte(step.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		changed, err := r.read()
		if got := len(*r.serials.Load()); err != nil || changed != step.changed || got != step.serials {
			t.Errorf("content %q: read returns changed %v, and the list has %d serial numbers, error %v; want the values of the table", step.text, changed, got, err)
		}
	}
}

func TestListenRefusesLists(t *testing.T) {
	s := newSite(t)
	listed := func(text func() string) func(c *Config) {
		return func(c *Config) {
			change, _ := s.revoking(text())
			change(c)
		}
	}
	listenRefuses(t, func() Config { return s.config("n1") }, []refusal{
		{"no serial numbers", listed(func() string { return "n4\n" }), certs.ErrSerials},
		{"its own certificate", listed(func() string { return s.hex("n1") }), ErrRevoked},
		{"no list", func(c *Config) { c.RevokedFile = filepath.Join(s.dir, "missing") }, fs.ErrNotExist},
	})
}

// TestRevoked revokes a certificate while its node has streams in both directions. These
// streams must be closed, new ones must be refused, and streams of other nodes must stay open. An
// unreadable list must have no effect. A new certificate must be accepted.
func TestRevoked(t *testing.T) {
	s := newSite(t)
	change, replace := s.revoking("# none\n")
	var log lines
	n1 := s.link("n1", change, func(c *Config) { c.Log = log.logger() })
	n2, n3 := s.link("n2"), s.link("n3")
	out3, in3 := dialed(t, n3, n1, Raft)
	type pair struct {
		near, far interface{ Read([]byte) (int, error) }
	}
	var streams []pair
	for _, p := range []Purpose{Raft, Client, Control} {
		out, in := dialed(t, n2, n1, p)
		streams = append(streams, pair{in, out})
	}
	back1, back2 := dialed(t, n1, n2, Client)
	streams = append(streams, pair{back1, back2})

	replace("these are no serial numbers\n")
	awaitLine(t, &log, "cannot read the list of revoked certificates")
	flows(t, out3, in3)
	flows(t, back1, back2)

	replace(fmt.Sprintf("%s # stolen\n", strings.ToUpper(s.hex("n2"))))
	for _, c := range streams {
		if _, err := c.near.Read(make([]byte, 1)); err == nil {
			t.Error("a stream with a revoked certificate is not closed")
		}
	}
	flows(t, out3, in3)
	for _, p := range []Purpose{Raft, Client, Control} {
		_, err := dial(t, n2, "n1", n1, p)
		refused(t, err, ErrRefused, ErrCertificate)
		_, err = dial(t, n1, "n2", n2, p)
		refused(t, err, ErrCertificate, ErrRevoked)
	}

	if err := os.Remove(filepath.Join(s.dir, "revoked")); err != nil {
		t.Fatal(err)
	}
	_, err := dial(t, n2, "n1", n1, Raft)
	refused(t, err, ErrRefused, ErrCertificate)
	renewed := s.link("n2")
	out, in := dialed(t, renewed, n1, Raft)
	flows(t, out, in)
}

func awaitLine(t *testing.T, log *lines, text string) {
	t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for end := time.After(patience); len(log.with(text)) == 0; {
		select {
		case <-ticker.C:
		case <-end:
			t.Fatalf("no line of the log contains %q", text)
		}
	}
}
