package certs

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/throttledhq/throttled/internal/fsutil"
	"github.com/throttledhq/throttled/topology"
)

const (
	caName    = "ca"
	extension = ".pem"
	keySuffix = "-key"
)

// Files returns the paths of the certificate of a node and of its key in a directory: NODE.pem
// and NODE-key.pem.
func Files(dir, node string) (cert, key string) {
	return filepath.Join(dir, node+extension), filepath.Join(dir, node+keySuffix+extension)
}

// CAFiles returns the paths of the certificate of the CA and of its key in a directory: ca.pem
// and ca-key.pem.
func CAFiles(dir string) (cert, key string) { return Files(dir, caName) }

// ErrFileName is wrapped if a node has a valid name that cannot be used for files.
var ErrFileName = errors.New("its files would conflict with those of the CA or of another node; choose a name other than ca and without -key at the end")

// CheckFile checks that the name of a node can be used for its files. Errors wrap
// topology.ErrName if the name is invalid, or ErrFileName if the files would have the same
// names as those of the CA or of another node.
func CheckFile(node string) error {
	if err := topology.CheckName(node); err != nil {
		return fmt.Errorf("node %w", err)
	}
	if lower := strings.ToLower(node); lower == caName || strings.HasSuffix(lower, keySuffix) {
		return fmt.Errorf("node %q: %w", node, ErrFileName)
	}
	return nil
}

// LoadCA loads a CA from the files in a directory. Errors wrap fs.ErrNotExist if both files are
// missing: the caller may then create a CA. Errors wrap ErrNotCA if only one file is missing, because a
// new CA would not match the certificates that the old CA has signed. Other errors are those of ParseCA
// and of the file system.
func LoadCA(dir string, now time.Time) (*CA, error) {
	certFile, keyFile := CAFiles(dir)
	cert, certErr := os.ReadFile(certFile) // #nosec G304 -- the operator chooses the path
	key, keyErr := os.ReadFile(keyFile)    // #nosec G304 -- the operator chooses the path
	if errors.Is(certErr, fs.ErrNotExist) != errors.Is(keyErr, fs.ErrNotExist) {
		return nil, fmt.Errorf("load the CA: %w: one of %s and %s is missing; restore it, or choose another directory", ErrNotCA, certFile, keyFile)
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

// LoadKeyPair returns a certificate, followed by those of intermediate CAs, and its key from two files in PEM format. Errors are
// ErrMismatch, and those of fsutil.ReadFile and of tls.X509KeyPair.
func LoadKeyPair(certFile, keyFile string) (pair tls.Certificate, err error) {
	cert, err := fsutil.ReadFile(certFile)
	if err != nil {
		return pair, err
	}
	key, err := fsutil.ReadFile(keyFile)
	if err != nil {
		return pair, err
	}
	pair, err = tls.X509KeyPair(cert, key)
	if err != nil && strings.Contains(err.Error(), "does not match public key") { // package tls has no type for this error
		err = ErrMismatch
	}
	return pair, err
}

// IssuedFile returns the path of the file in a directory that lists the certificates issued there.
func IssuedFile(dir string) string { return filepath.Join(dir, "issued") }

// Record appends a line for a certificate to the file of certificates issued in a
// directory. It creates the file and the directory if they do not exist. The line contains the
// serial number, followed by a comment with the name and the time. A list of revoked
// certificates has the same format. The line of a certificate stays in the file when the
// certificate is replaced.
func (p Pair) Record(dir, name string, now time.Time) error {
	serial, err := p.Serial()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("record a certificate: %w", err)
	}
	f, err := os.OpenFile(IssuedFile(dir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) // #nosec G302 -- serial numbers of certificates are no secrets
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
	cert, err := os.ReadFile(file) // #nosec G304 -- the operator chooses the path
	if err != nil {
		return "", err
	}
	return Pair{Cert: cert}.Serial()
}

// Save writes the files of the CA. See [Pair.Save].
func (ca *CA) Save(dir string) error { return ca.pair.save(dir, caName) }

// Save writes the files of a node, and replaces existing ones. Each file is replaced
// atomically, the key first. A node that reads the files concurrently finds either a
// matching pair, or a certificate that does not match the key. If the directory does not exist, Save
// creates it with access for its owner only. The file of the key is also accessible to its owner only. Errors
// wrap topology.ErrName, ErrFileName or those of the file system.
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

// replace writes a temporary file with a unique name, syncs it, and renames it to
// path.
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
		_ = os.Remove(f.Name()) // the first error is the one to report
	}
	return err
}
