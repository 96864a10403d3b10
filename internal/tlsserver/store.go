package tlsserver

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/internal/fsutil"
	"github.com/throttledhq/throttled/internal/lograte"
)

const (
	checkEvery  = time.Second // interval of checks of the files
	expiresSoon = 14 * 24 * time.Hour
	day         = 24 * time.Hour
)

// Store holds the files of TLS, and performs handshakes. Its methods may be called concurrently.
type Store struct {
	log        *slog.Logger
	lines      *lograte.Limiter
	daily      *lograte.Limiter
	current    atomic.Pointer[identity]
	handshakes handshakes

	mu      sync.Mutex    // held while files are read
	read    []os.FileInfo // of the files when they were last read
	checked []os.FileInfo // of the files at the last check
	failure string        // the last failure that was logged; empty if the last read has succeeded
}

// Open loads the files. An expired certificate is reported in the log only, so that a server whose certificate expires
// can still be restarted. log may be nil. Other errors wrap ErrNoFiles, ErrNoCA, certs.ErrMismatch, certs.ErrSerials, or errors of package
// tls or of the file system.
func Open(s Settings, log *slog.Logger) (*Store, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	store := &Store{log: log, lines: lograte.New(1, time.Second), daily: lograte.New(1, day)}
	store.handshakes.init()
	store.read = stat(s.files()) // before the files are read: a later change then causes another read
	store.checked = store.read
	id, err := s.load()
	if err != nil {
		return nil, err
	}
	store.use(id)
	if err := id.checkTime(time.Now()); err != nil {
		log.Error("clients will refuse TLS connections", "error", err)
	}
	return store, nil
}

// use makes an identity the current one.
func (s *Store) use(id *identity) {
	s.current.Store(id)
	s.failure = ""
	fsutil.WarnReadable(s.log, "tls-key-file", id.settings.KeyFile)
}

// Replace loads the files of other settings, and uses them for new connections. After an error, nothing has changed.
// Errors are those of Open, and ErrExpired.
func (s *Store) Replace(settings Settings) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replace(settings)
}

func (s *Store) replace(settings Settings) error {
	files := stat(settings.files())
	id, err := settings.load()
	if err == nil {
		err = id.checkTime(time.Now())
	}
	if err != nil {
		return err
	}
	s.read = files
	s.use(id)
	return nil
}

// Settings returns the current settings.
func (s *Store) Settings() Settings { return s.current.Load().settings }

// Reload reads the files again. After an error, which is one of those of Replace, the previous files stay in use, and the
// error is logged unless it was the last one that was logged.
func (s *Store) Reload() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reload()
}

// reload is Reload while s.mu is held.
func (s *Store) reload() error {
	err := s.replace(s.Settings())
	if err != nil && err.Error() != s.failure {
		s.failure = err.Error()
		s.log.Error("the files of TLS cannot be used, the previous ones stay in use: correct the files", "error", err)
	}
	return err
}

// Watch reloads the files after each change, until ctx is done. A reason why changed files cannot be used is logged once.
func (s *Store) Watch(ctx context.Context) {
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.check()
			s.warnExpiry(time.Now())
		}
	}
}

// check reads the files if they have changed. Changed files are read only after they were the same at two consecutive
// checks, since the certificate and its key cannot be replaced together.
func (s *Store) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	files := stat(s.Settings().files())
	settled := slices.EqualFunc(files, s.checked, fsutil.SameState)
	s.checked = files
	if !settled || slices.EqualFunc(files, s.read, fsutil.SameState) {
		return
	}
	s.read = files
	if s.reload() == nil {
		s.log.Info("loaded changed files of TLS", "certificate_expires", s.current.Load().cert.Leaf.NotAfter)
	}
}

// stat returns the states of files; nil for a file that does not exist.
func stat(files []string) []os.FileInfo {
	list := make([]os.FileInfo, len(files))
	for i, name := range files {
		if info, err := os.Stat(name); err == nil {
			list[i] = info
		}
	}
	return list
}

// warnExpiry logs once a day that the certificate expires soon.
func (s *Store) warnExpiry(now time.Time) {
	end := s.current.Load().cert.Leaf.NotAfter
	if end.Sub(now) > expiresSoon {
		return
	}
	if _, ok := s.daily.Allow("expiry", now); ok {
		s.log.Warn("the certificate of TLS expires soon: replace tls-cert-file and tls-key-file", "expires", end)
	}
}

// Expiry returns the times at which the certificate of the server and the first of the CAs of clients expire. ca is
// the zero time if client certificates are not verified.
func (s *Store) Expiry() (server, ca time.Time) {
	id := s.current.Load()
	return id.cert.Leaf.NotAfter, id.caEnd
}

// config returns a configuration that uses the current files for each handshake.
func (s *Store) config(protocol string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, // of this configuration, which no connection uses
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c := s.current.Load().configs[protocol]
			if c == nil {
				return nil, fmt.Errorf("no configuration for the protocol %q", protocol)
			}
			return c, nil
		},
	}
}
