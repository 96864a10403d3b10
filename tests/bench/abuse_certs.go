package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/throttledhq/throttled/cluster/transport/certs"
)

const (
	keptTLS      = 64
	renewals     = 3
	invalidTries = 20
	invalidEvery = 50 * time.Millisecond // reads of the certificate after the server was asked to load an invalid one
)

// certificates renews the certificate of the server while connections are open, replaces it with files that are not valid,
// and connects with certificates and versions that must be refused.
func (a *abuser) certificates() error {
	return a.withTLS(func(v *victim, t *tlsServer) error {
		kept, err := t.keepOpen()
		if err != nil {
			return err
		}
		defer func() {
			for _, c := range kept {
				_ = c.Close()
			}
		}()
		dropped := 0
		for range renewals {
			if err := t.renew(); err != nil {
				return err
			}
			for _, c := range kept {
				dropped += countFailed(ping(c))
			}
		}
		a.atMost("connections dropped by renewals", float64(dropped), 0, "")
		accepted, err := t.acceptedWrongly()
		a.note("accepted wrongly: %q", accepted)
		a.atMost("wrong clients that were accepted", float64(len(accepted)), 0, "")
		if err != nil {
			return err
		}
		used, err := t.usesInvalidFile()
		a.atMost("invalid certificates that the server used", float64(countTrue(used)), 0, "")
		return err
	})
}

func countFailed(err error) int { return countTrue(err != nil) }

func countTrue(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (t *tlsServer) keepOpen() (kept []net.Conn, err error) {
	for range keptTLS {
		c, err := tls.Dial("tcp", t.secure, t.client)
		if err != nil {
			return kept, err
		}
		kept = append(kept, c)
		if err := ping(c); err != nil {
			return kept, err
		}
	}
	return kept, nil
}

// renew replaces the certificate of the server, and waits until it is used.
func (t *tlsServer) renew() error {
	ca, err := certs.LoadCA(t.certs, time.Now())
	if err != nil {
		return err
	}
	pair, err := ca.Issue("server", "bench", 1, time.Now())
	if err != nil {
		return err
	}
	serial, err := pair.Serial()
	if err = errors.Join(err, pair.Save(t.certs, "server"), t.cmd.Process.Signal(syscall.SIGHUP)); err != nil {
		return err
	}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for end := time.Now().Add(formWithin); time.Now().Before(end); <-ticker.C {
		if used, err := t.serial(); err != nil || used == serial {
			return err
		}
	}
	return fmt.Errorf("the certificate %s is not used", serial)
}

// serial returns the serial number of the certificate that the server presents.
func (t *tlsServer) serial() (string, error) {
	c, err := tls.Dial("tcp", t.secure, t.client)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	return certs.SerialOf(c.ConnectionState().PeerCertificates[0]), nil
}

// acceptedWrongly returns the names of clients that must be refused and that the server has served.
func (t *tlsServer) acceptedWrongly() (served []string, err error) {
	now := time.Now()
	ca, err := certs.LoadCA(t.certs, now)
	if err != nil {
		return nil, err
	}
	stranger, err := certs.NewCA("bench", now)
	if err != nil {
		return nil, err
	}
	foreign, err1 := issued(stranger, now)
	expired, err2 := issued(ca, now.Add(-48*time.Hour))
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	for _, wrong := range []struct {
		name   string
		config *tls.Config
	}{
		{"no certificate", &tls.Config{}},
		{"a certificate of another CA", &tls.Config{Certificates: []tls.Certificate{foreign}}},
		{"an expired certificate", &tls.Config{Certificates: []tls.Certificate{expired}}},
		{"TLS 1.0", &tls.Config{Certificates: t.client.Certificates, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10}},
		{"TLS 1.1", &tls.Config{Certificates: t.client.Certificates, MinVersion: tls.VersionTLS11, MaxVersion: tls.VersionTLS11}},
	} {
		wrong.config.InsecureSkipVerify = true // of the server: the row is about clients
		if t.serves(wrong.config) {
			served = append(served, wrong.name)
		}
	}
	if !t.serves(t.client) {
		err = errors.New("the server refuses the right client")
	}
	return served, err
}

// issued returns a certificate of a CA that was issued for a day at the given time.
func issued(ca *certs.CA, at time.Time) (tls.Certificate, error) {
	pair, err := ca.Issue("client", "bench", 1, at)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(pair.Cert, pair.Key)
}

// serves reports whether the server answers a client.
func (t *tlsServer) serves(config *tls.Config) bool {
	c, err := tls.Dial("tcp", t.secure, config)
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	return ping(c) == nil
}

// usesInvalidFile asks the server to load an expired certificate, and reports whether it uses the certificate.
func (t *tlsServer) usesInvalidFile() (bool, error) {
	before, err := t.serial()
	if err != nil {
		return false, err
	}
	ca, err := certs.LoadCA(t.certs, time.Now())
	if err != nil {
		return false, err
	}
	expired, err := ca.Issue("server", "bench", 1, time.Now().Add(-48*time.Hour))
	if err = errors.Join(err, expired.Save(t.certs, "server"), t.cmd.Process.Signal(syscall.SIGHUP)); err != nil {
		return false, err
	}
	ticker := time.NewTicker(invalidEvery)
	defer ticker.Stop()
	for range invalidTries {
		if used, err := t.serial(); err != nil || used != before {
			return used != before, err
		}
		<-ticker.C
	}
	return false, nil
}
