package certs

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/throttledhq/throttled/topology"
)

func TestSaveLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	ca := newCA(t)
	if err := ca.Save(dir); err != nil {
		t.Fatalf("save the CA: %v", err)
	}
	loaded, err := LoadCA(dir, noon)
	if err != nil {
		t.Fatalf("load the CA: %v", err)
	}
	p, err := loaded.Issue("n1", "c1", 1, noon)
	if err != nil {
		t.Fatal(err)
	}
	if err := leaf(t, p).CheckSignatureFrom(ca.cert); err != nil {
		t.Errorf("the loaded CA differs from the saved one: %v", err)
	}
	for range 2 { // the second time over existing files
		if err := p.Save(dir, "n1"); err != nil {
			t.Fatalf("save a certificate: %v", err)
		}
	}
	certFile, keyFile := Files(dir, "n1")
	for file, want := range map[string]string{certFile: string(p.Cert), keyFile: string(p.Key)} {
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("the content of %s differs from the saved pair, or ReadFile fails: %v", file, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 4 {
		t.Errorf("the directory has %d files, error %v; want 4, and no temporary file", len(entries), err)
	}
}

// TestSaveModes checks that only the owner can read keys, even if existing files were
// readable by others.
func TestSaveModes(t *testing.T) {
	dir := t.TempDir()
	_, key := CAFiles(dir)
	if err := os.WriteFile(key, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := newCA(t).Save(dir); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(key); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file of the key has mode %v, error %v; want 0600", info.Mode(), err)
	}
}

// TestSaveFails checks that no temporary files are left if files cannot be replaced.
func TestSaveFails(t *testing.T) {
	dir := t.TempDir()
	cert, key := CAFiles(dir)
	if err := os.MkdirAll(filepath.Join(key, "x"), 0o700); err != nil { // a directory at the path of the key
		t.Fatal(err)
	}
	if err := newCA(t).Save(dir); err == nil {
		t.Error("Save succeeds although the path of the key is a directory; want an error")
	}
	if _, err := os.Stat(cert); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Stat of the certificate returns %v; want fs.ErrNotExist, because the key was not saved", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the directory has %d entries, error %v; want only the directory at the path of the key", len(entries), err)
	}
	if err := newCA(t).Save(filepath.Join(cert, "\x00")); err == nil {
		t.Error("Save to an invalid directory succeeds; want an error")
	}
}

func TestSaveRefusesNames(t *testing.T) {
	dir := t.TempDir()
	for node, want := range map[string]error{
		"ca": ErrFileName, "CA": ErrFileName, "n1-key": ErrFileName, "n1-KEY": ErrFileName, "ca-key": ErrFileName,
		"": topology.ErrName, "../x": topology.ErrName, "a/b": topology.ErrName,
	} {
		if err := (Pair{}).Save(dir, node); !errors.Is(err, want) {
			t.Errorf("Save with the name %q returns %v; want %v", node, err, want)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("the directory has %d files, error %v; want none", len(entries), err)
	}
}

func TestLoadCAFails(t *testing.T) {
	for _, test := range []struct {
		name   string
		remove func(cert, key string) []string
		at     time.Time
		want   error
	}{
		{"no files", func(cert, key string) []string { return []string{cert, key} }, noon, fs.ErrNotExist},
		{"no key", func(_, key string) []string { return []string{key} }, noon, ErrNotCA},
		{"no certificate", func(cert, _ string) []string { return []string{cert} }, noon, ErrNotCA},
		{"expired", func(_, _ string) []string { return nil }, noon.AddDate(CAYears, 0, 1), ErrExpired},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := newCA(t).Save(dir); err != nil {
				t.Fatal(err)
			}
			for _, file := range test.remove(CAFiles(dir)) {
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
			}
			_, err := LoadCA(dir, test.at)
			if !errors.Is(err, test.want) {
				t.Errorf("LoadCA returns %v; want %v", err, test.want)
			}
			if absent := errors.Is(err, fs.ErrNotExist); absent != (test.want == fs.ErrNotExist) {
				t.Errorf("LoadCA returns %v, and errors.Is for fs.ErrNotExist is %v; want the opposite", err, absent)
			}
		})
	}
}

// TestLoadKeyPair_Mismatch checks the error for a key of another certificate, and for a key of another type.
func TestLoadKeyPair_Mismatch(t *testing.T) {
	ca, dir := newCA(t), t.TempDir()
	p, err := ca.Issue("n1", "c1", 1, noon)
	if err != nil {
		t.Fatal(err)
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string][]byte{"other": ca.Pair().Key, "type": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})} {
		if err := (Pair{Cert: p.Cert, Key: key}).Save(dir, name); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadKeyPair(Files(dir, name)); !errors.Is(err, ErrMismatch) {
			t.Errorf("%s: got %v, want ErrMismatch", name, err)
		}
	}
}
