package raftstore

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

func TestClaim(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Config{Dir: dir})
	if _, ok := s.Identity(); ok {
		t.Error("a new directory has an identity")
	}
	made, fresh, err := s.Claim("cluster", "node")
	if err != nil || !fresh || made.Cluster != "cluster" || made.Node != "node" || len(made.Incarnation) != 32 || time.Since(made.Created).Abs() > time.Minute {
		t.Fatalf("Claim returns %+v, fresh %t, %v; want a new identity", made, fresh, err)
	}
	for range 2 {
		if got, ok := s.Identity(); !ok || got != made {
			t.Errorf("Identity returns %+v, %t; want %+v", got, ok, made)
		}
		if got, fresh, err := s.Claim("cluster", "node"); err != nil || fresh || got != made {
			t.Errorf("the next Claim returns %+v, fresh %t, %v; want %+v", got, fresh, err, made)
		}
		if got, _, err := s.Claim("other", "node"); !errors.Is(err, ErrOtherCluster) || got != made {
			t.Errorf("Claim for another cluster returns %+v, %v; want the old identity and ErrOtherCluster", got, err)
		}
		if _, _, err := s.Claim("cluster", "other"); !errors.Is(err, ErrOtherNode) {
			t.Errorf("Claim for another node returns %v; want ErrOtherNode", err)
		}
		must(t, s.Close())
		s = openStore(t, Config{Dir: dir})
	}
}

func TestClaim_Names(t *testing.T) {
	long := strings.Repeat("\x01", maxName)
	for _, names := range [][2]string{{"", "n"}, {"c", ""}, {long + "x", "n"}, {"c", long + "x"}, {"c\xff", "n"}, {"c", "\xff"}} {
		s := openStore(t, Config{Dir: t.TempDir()})
		if _, fresh, err := s.Claim(names[0], names[1]); err == nil || fresh {
			t.Errorf("Claim accepts the names %q; want an error", names)
		}
	}
	dir := t.TempDir()
	s := openStore(t, Config{Dir: dir})
	_, _, err := s.Claim(long, long)
	must(t, err)
	must(t, s.Close())
	openStore(t, Config{Dir: dir})
}

// TestClaim_IdentityGone checks that a directory with a log but no identity is not treated as new.
func TestClaim_IdentityGone(t *testing.T) {
	dir := claimed(t, 3)
	must(t, os.Remove(inCurrent(dir, identityName)))
	s := openStore(t, Config{Dir: dir})
	if _, fresh, err := s.Claim("cluster", "node"); !errors.Is(err, ErrDamaged) || fresh {
		t.Errorf("Claim of a log without an identity returns fresh %t, %v; want ErrDamaged", fresh, err)
	}
}

// TestClaim_CannotWrite creates a directory at the path of the temporary file, so that the identity
// cannot be written. Claim must fail, and succeed after the directory has been removed.
func TestClaim_CannotWrite(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Config{Dir: dir})
	must(t, os.Mkdir(inCurrent(dir, identityName+".tmp"), 0o700))
	if _, fresh, err := s.Claim("cluster", "node"); err == nil || fresh || !strings.Contains(err.Error(), dir) {
		t.Errorf("Claim returns fresh %t, %v; want an error with the path", fresh, err)
	}
	if _, ok := s.Identity(); ok {
		t.Error("Identity returns an identity that was not written")
	}
	must(t, os.Remove(inCurrent(dir, identityName+".tmp")))
	_, fresh, err := s.Claim("cluster", "node")
	if err != nil || !fresh {
		t.Errorf("Claim after the removal of the directory returns fresh %t, %v; want true and nil", fresh, err)
	}
}

// TestIdentity_EveryBit flips each bit of an identity file, and truncates the file at each byte. The
// result must be rejected or be decoded to the same identity.
func TestIdentity_EveryBit(t *testing.T) {
	dir := claimed(t, 1)
	s := openStore(t, Config{Dir: dir})
	_, err := s.RecordStart("p1")
	must(t, errors.Join(err, s.NoteAnnounced()))
	_, err = s.RecordStart("p2")
	must(t, errors.Join(err, s.SetRecovery("1-0123456789abcdef"), s.MarkStale("an old copy"), s.Close()))
	path := inCurrent(dir, identityName)
	data, err := os.ReadFile(path)
	must(t, err)
	want, err := decodeIdentity(data)
	must(t, err)
	for i := range data {
		if got, err := decodeIdentity(data[:i]); err == nil && got != want {
			t.Errorf("the first %d bytes are decoded as %+v; want an error or the original identity", i, got)
		}
		for bit := range 8 {
			changed := bytes.Clone(data)
			changed[i] ^= 1 << bit
			if got, err := decodeIdentity(changed); err == nil && got != want || err != nil && !errors.Is(err, ErrDamaged) {
				t.Errorf("bit %d of byte %d is flipped: decodeIdentity returns %+v, %v; want ErrDamaged or the original identity", bit, i, got, err)
			}
		}
	}
	for what, content := range map[string]string{"empty": "", "long": strings.Repeat(" ", maxIdentity) + string(data)} {
		must(t, os.WriteFile(path, []byte(content), 0o600))
		if s, err := Open(Config{Dir: dir, Fatal: func(error) {}}); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), dir) {
			t.Errorf("the file is %s: Open returns %v, %v; want ErrDamaged and the path", what, s, err)
		}
	}
	must(t, os.Remove(path))
	must(t, os.Mkdir(path, 0o700))
	if s, err := Open(Config{Dir: dir, Fatal: func(error) {}}); err == nil {
		t.Errorf("a directory is at the path of the file: Open returns %v; want an error", s)
	}
}

// FuzzDecodeIdentity searches for input whose decoded identity changes when it is encoded and decoded
// again.
func FuzzDecodeIdentity(f *testing.F) {
	i := Identity{Cluster: "cluster", Node: "node", Incarnation: strings.Repeat("0f", 16), Created: time.Unix(1_700_000_000, 5).UTC()}
	data, err := encodeIdentity(i)
	must(f, err)
	f.Add(data)
	i.Boot, i.Lineage, i.Stale, i.Recovery = 3, Lineage{1, "p1", "p2 p3"}, "why", "1-0123456789abcdef"
	raised, err := encodeIdentity(i)
	must(f, err)
	f.Add(raised)
	f.Add(data[:len(data)/2])
	f.Add(bytes.ReplaceAll(data, []byte("node"), []byte("mode")))
	f.Add([]byte(`{"cluster":"c","cluster":"d","node":"n","incarnation":"","created":"2020-01-01T00:00:00Z","sum":""}`))
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := decodeIdentity(data)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("decodeIdentity of %q returns %v; want nil or ErrDamaged", data, err)
			}
			return
		}
		again, err := encodeIdentity(got)
		must(t, err)
		if back, err := decodeIdentity(again); err != nil || !back.Created.Equal(got.Created) || back.Node != got.Node || back.Cluster != got.Cluster || back.Incarnation != got.Incarnation ||
			back.Boot != got.Boot || back.Lineage != got.Lineage || back.Stale != got.Stale || back.Recovery != got.Recovery || back.Recovered != got.Recovered {
			t.Errorf("%q is decoded as %+v; this identity, encoded and decoded again, is %+v, error %v; want no difference", data, got, back, err)
		}
	})
}

// TestIdentity_Before checks compatibility with earlier versions, which have neither the field Boot nor the
// fields after it. These fields must not be written if they are zero, and Sum must not cover them.
func TestIdentity_Before(t *testing.T) {
	made := Identity{Cluster: "c", Node: "n", Incarnation: strings.Repeat("0f", 16), Created: time.Unix(1_700_000_000, 0).UTC()}
	data, err := encodeIdentity(made)
	must(t, err)
	for _, field := range []string{"boot", "line", "stale", "recovery", "state_sum"} {
		if bytes.Contains(data, []byte(field)) {
			t.Errorf("the field %s is written although it is zero:\n%s", field, data)
		}
	}
	if got, err := decodeIdentity(data); err != nil || got != made {
		t.Errorf("decodeIdentity returns %+v, %v; want the encoded identity", got, err)
	}
	raised := made
	raised.Boot = 1
	data, err = encodeIdentity(raised)
	must(t, err)
	if !bytes.Contains(data, []byte(`"sum": "`+made.sum()+`"`)) {
		t.Errorf("the checksum that previous versions verify has changed:\n%s", data)
	}
}

// TestRaise checks that RecordStart counts starts durably.
func TestRaise(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Config{Dir: dir})
	if _, err := s.RecordStart("p"); err == nil {
		t.Error("RecordStart succeeds in an unclaimed directory; want an error")
	}
	for want := range uint64(3) {
		made, _, err := s.Claim("cluster", "node")
		if err != nil || made.Boot != want {
			t.Fatalf("Claim returns %+v, %v; want boot number %d", made, err, want)
		}
		if raised, err := s.RecordStart("p"); err != nil || raised.Boot != want+1 || raised.Incarnation != made.Incarnation {
			t.Errorf("RecordStart returns %+v, %v; want the next boot number and the same incarnation", raised, err)
		}
		must(t, s.Close())
		s = openStore(t, Config{Dir: dir})
	}
	must(t, os.Mkdir(inCurrent(dir, identityName+".tmp"), 0o700))
	if _, err := s.RecordStart("p"); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("RecordStart whose write fails returns %v; want an error with the path", err)
	}
	if i, _ := s.Identity(); i.Boot != 3 {
		t.Errorf("the boot number after a failed write is %d; want 3", i.Boot)
	}
}

// TestMarkStale checks that a directory marked as stale cannot be claimed.
func TestMarkStale(t *testing.T) {
	for _, more := range []string{strings.Repeat(".", 2*maxIdentity), strings.Repeat("é", maxStale), "\xff"} {
		dir := claimed(t, 5)
		s := openStore(t, Config{Dir: dir})
		must(t, s.MarkStale("n2 remembers more"+more))
		must(t, s.Close())
		s = openStore(t, Config{Dir: dir})
		if _, _, err := s.Claim("cluster", "node"); !errors.Is(err, ErrStale) || !strings.Contains(err.Error(), "n2 remembers more") {
			t.Errorf("Claim returns %v; want ErrStale and the reason", err)
		}
		must(t, s.Close())
	}
}
