package raftstore

import (
	"errors"
	"io"
	"testing"

	"github.com/hashicorp/raft"
)

func firstOf(node string, write func(w io.Writer) error) First {
	return First{Cluster: "c", Node: node, Servers: threeServers, Recovery: "7-0123456789abcdef", Index: 1, Term: 1, Write: write}
}

func writeText(text string) func(w io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

// TestCreate checks the content of a new directory, which must be usable and must not be created a second time.
func TestCreate(t *testing.T) {
	dir := t.TempDir()
	must(t, Create(dir, firstOf("a", writeText("the keys"))))
	s, err := Inspect(dir)
	must(t, err)
	if s.Identity == nil || s.Identity.Node != "a" || s.Identity.Cluster != "c" || s.Identity.Recovery != "7-0123456789abcdef" {
		t.Errorf("the identity is %+v", s.Identity)
	}
	if s.LastIndex != 1 || s.LastTerm != 1 || s.CurrentTerm != 1 || s.LastLog != 0 || len(s.Configuration.Servers) != len(threeServers) {
		t.Errorf("the directory has %+v; want a snapshot at entry 1 of term 1 with all servers, and no log", s)
	}
	store := openStore(t, Config{Dir: dir})
	must(t, store.Check())
	_, source, err := store.Snapshots().Open(s.Snapshots[0].ID)
	must(t, err)
	text, err := io.ReadAll(source)
	if string(text) != "the keys" || err != nil {
		t.Errorf("the snapshot contains %q, error %v", text, err)
	}
	must(t, errors.Join(source.Close(), store.Close()))
	if err := Create(dir, firstOf("a", writeText("other keys"))); !errors.Is(err, ErrHasData) {
		t.Errorf("a second Create returns %v; want ErrHasData", err)
	}
}

// TestCreate_Fails makes the snapshot fail. The directory must not look like that of a node, and Create must succeed later.
func TestCreate_Fails(t *testing.T) {
	dir, failure := t.TempDir(), errors.New("the backup cannot be read")
	if err := Create(dir, firstOf("a", func(io.Writer) error { return failure })); !errors.Is(err, failure) {
		t.Errorf("Create returns %v; want the error of Write", err)
	}
	if s, err := Inspect(dir); err != nil || len(s.Snapshots) != 0 || s.LastIndex != 0 || s.CurrentTerm != 0 {
		t.Errorf("after a failure the directory has %+v, error %v; want no data", s, err)
	}
	twice := firstOf("a", writeText(""))
	twice.Servers = []raft.Server{oneServer[0], oneServer[0]}
	if err := Create(dir, twice); err == nil {
		t.Error("Create accepts a node that is listed twice")
	}
	must(t, Create(dir, firstOf("a", writeText("the keys"))))
}

// TestCreate_Used checks that Create refuses the directory of a node that has been started, even if it has no log yet.
func TestCreate_Used(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Config{Dir: dir})
	_, _, err := s.Claim("c", "a")
	must(t, err)
	_, err = s.RecordStart("process")
	must(t, errors.Join(err, s.Close()))
	if err := Create(dir, firstOf("a", writeText(""))); !errors.Is(err, ErrHasData) {
		t.Errorf("Create returns %v; want ErrHasData", err)
	}
}
