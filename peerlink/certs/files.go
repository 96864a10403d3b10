package certs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	caName    = "ca"
	extension = ".pem"
	keySuffix = "-key"
)

// Files returns where a directory has the certificate of a node and its key: NODE.pem
// and NODE-key.pem.
func Files(dir, node string) (cert, key string) {
	return filepath.Join(dir, node+extension), filepath.Join(dir, node+keySuffix+extension)
}

// CAFiles returns where a directory has the certificate of the CA and its key: ca.pem and
// ca-key.pem.
func CAFiles(dir string) (cert, key string) { return Files(dir, caName) }

// CheckFile returns an error that wraps ErrName if the files of a node of this name would
// be taken for those of the CA or of another node.
func CheckFile(node string) error {
	if err := CheckName(node); err != nil {
		return fmt.Errorf("node %w", err)
	}
	if lower := strings.ToLower(node); lower == caName || strings.HasSuffix(lower, keySuffix) {
		return fmt.Errorf("node %q: its files would be taken for others: %w", node, ErrName)
	}
	return nil
}

// LoadCA reads a CA from the files in a directory. Errors wrap fs.ErrNotExist if neither
// is there, and else those of ParseCA and of the file system. A CA of which one file is
// missing wraps ErrNotCA: a new one in its place would not go with what it has signed.
func LoadCA(dir string, now time.Time) (*CA, error) {
	certFile, keyFile := CAFiles(dir)
	cert, certErr := os.ReadFile(certFile)
	key, keyErr := os.ReadFile(keyFile)
	if errors.Is(certErr, fs.ErrNotExist) != errors.Is(keyErr, fs.ErrNotExist) {
		return nil, fmt.Errorf("load the CA: %w: one of %s and %s is missing", ErrNotCA, certFile, keyFile)
	}
	if err := errors.Join(certErr, keyErr); err != nil {
		return nil, fmt.Errorf("load the CA: %w", err)
	}
	ca, err := ParseCA(Pair{Cert: cert, Key: key}, now)
	if err != nil {
		return nil, fmt.Errorf("load the CA from %s: %w", certFile, err)
	}
	return ca, nil
}

// IssuedFile returns the file in a directory that lists the certificates that were made there.
func IssuedFile(dir string) string { return filepath.Join(dir, "issued") }

// Record adds a certificate to the file of those that were made in a directory, which is made if need be:
// a line with its serial number, and its name and the time in a comment. It has the form of a list of revoked
// certificates. A certificate that replaces another leaves the line of that one.
func (p Pair) Record(dir, name string, now time.Time) error {
	serial, err := p.Serial()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("record a certificate: %w", err)
	}
	f, err := os.OpenFile(IssuedFile(dir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("record a certificate: %w", err)
	}
	_, err = fmt.Fprintf(f, "%s # %s %s\n", serial, name, now.UTC().Format(time.RFC3339))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("record a certificate: %w", err)
	}
	return nil
}

// Serial returns the serial number of the certificate of a node in a directory, in hexadecimal digits.
func Serial(dir, node string) (string, error) {
	file, _ := Files(dir, node)
	cert, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	return Pair{Cert: cert}.Serial()
}

// Save writes the files of the CA. See [Pair.Save].
func (ca *CA) Save(dir string) error { return ca.pair.save(dir, caName) }

// Save writes the files of a node, over those that are there. A file is replaced in one
// step and the key comes first, so a node that reads them meanwhile finds either a pair
// or a certificate that does not go with its key. The directory is made if need be, for
// its owner only, as is the key. Errors wrap ErrName or those of the file system.
func (p Pair) Save(dir, node string) error {
	if err := CheckFile(node); err != nil {
		return err
	}
	return p.save(dir, node)
}

func (p Pair) save(dir, name string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("save certificates: %w", err)
	}
	certFile, keyFile := Files(dir, name)
	if err := replace(keyFile, p.Key, 0o600); err != nil {
		return fmt.Errorf("save a key: %w", err)
	}
	if err := replace(certFile, p.Cert, 0o644); err != nil {
		return fmt.Errorf("save a certificate: %w", err)
	}
	return nil
}

// replace writes a file under another name, which nobody else can have made, and renames
// it once it is on the disk.
func replace(path string, content []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // readable by its owner only
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error is the one to tell
	}
	return err
}
