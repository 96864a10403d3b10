package transport

import (
	"crypto/x509"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/throttledhq/throttled/cluster/transport/certs"
	"github.com/throttledhq/throttled/internal/fsutil"
)

// revocations is the list of revoked certificates. The zero value is an empty list.
type revocations struct {
	file    string
	checked os.FileInfo // the file at the last check; used by the reading goroutine only
	seen    os.FileInfo // the file when it was last read; used by the reading goroutine only
	serials atomic.Pointer[map[string]struct{}]
}

// read reads the file if it has changed, and reports whether it has replaced the list. A changed
// file is read only after it was the same at two consecutive checks. Without this delay, a file that
// is rewritten in place, and is empty at first, could be read as an empty list. The first list is
// read immediately. If read fails, the list is unchanged. The error wraps certs.ErrSerials or an error of the system.
func (r *revocations) read() (changed bool, err error) {
	info, err := os.Stat(r.file)
	if err != nil {
		r.seen = nil
		return false, fmt.Errorf("read revoked certificates: %w", err)
	}
	settled := r.serials.Load() == nil || fsutil.SameState(info, r.checked)
	r.checked = info
	if !settled || fsutil.SameState(info, r.seen) {
		return false, nil
	}
	text, err := fsutil.ReadFile(r.file)
	if err != nil {
		return false, fmt.Errorf("read revoked certificates: %w", err)
	}
	serials, err := certs.ParseSerials(string(text))
	if err != nil {
		return false, fmt.Errorf("read revoked certificates: %s: %w", r.file, err)
	}
	r.seen = info
	r.serials.Store(&serials)
	return true, nil
}

// check returns an error that wraps ErrCertificate and ErrRevoked if a certificate of a chain is revoked.
func (r *revocations) check(chain []*x509.Certificate) error {
	serials := r.serials.Load()
	if serials == nil {
		return nil
	}
	for _, c := range chain {
		if _, listed := (*serials)[certs.SerialOf(c)]; listed {
			return fmt.Errorf("%w: %w: serial number %x of %.200q", ErrCertificate, ErrRevoked, c.SerialNumber, c.DNSNames)
		}
	}
	return nil
}

// readRevoked reads the list for the first time. It fails if the list contains the
// certificate of this node, since no other node would accept that certificate.
func (l *Link) readRevoked() error {
	if l.cfg.RevokedFile == "" {
		return nil
	}
	if _, err := l.revoked.read(); err != nil {
		return fmt.Errorf("%w: raft-tls-revoked: %w", ErrFiles, err)
	}
	if err := l.revoked.check([]*x509.Certificate{l.certs.current.cert.Leaf}); err != nil {
		return fmt.Errorf("raft-tls-cert: %s: %w; issue a new one with throttled certs --renew", l.cfg.CertFile, err)
	}
	return nil
}

// watchRevoked reads the list again when its file changes, and closes the streams with a
// listed certificate. If the list cannot be read, the last valid list stays in force.
func (l *Link) watchRevoked() {
	for l.pause(checkEvery) {
		changed, err := l.revoked.read()
		if err != nil {
			l.log.warn("revoked", "cannot read the list of revoked certificates, the previous list stays in use: correct the file", "error", err)
		}
		if changed {
			l.cfg.Log.Info("loaded the list of revoked certificates", "file", l.cfg.RevokedFile, "serials", len(*l.revoked.serials.Load()))
			l.Recheck()
		}
	}
}
