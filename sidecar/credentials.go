package sidecar

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/throttledhq/throttled/internal/fsutil"
	"github.com/throttledhq/throttled/internal/tlsclient"
)

// Credentials authenticate a sidecar to its upstream, and the upstream to the sidecar. The files are read for each
// connection, so they can be replaced at any time.
type Credentials struct {
	User         string // empty: the user "default"
	PasswordFile string // file with the password; empty: none, and the sidecar does not authenticate
	TLS          bool   // connect with TLS
	CACertFile   string // certificates of the CAs of the upstream, in PEM; empty: those of the system
	CertFile     string // certificate of the sidecar, in PEM; empty: none
	KeyFile      string // key of CertFile, in PEM
	ServerName   string // name in the certificate of the upstream; empty: the host of the address

	dial func(ctx context.Context, addr string) (net.Conn, error) // set by tests; nil: TCP
}

// Check returns an error if a file cannot be used.
func (c *Credentials) Check() error {
	if _, err := c.auth(); err != nil {
		return err
	}
	_, err := c.tlsConfig("")
	return err
}

// user returns the name of the user on the upstream. It is empty if the name can follow from the certificate.
func (c *Credentials) user() string {
	if c.PasswordFile == "" && c.CertFile != "" {
		return ""
	}
	return cmp.Or(c.User, "default")
}

// auth returns the AUTH command, or nil if there is no password.
func (c *Credentials) auth() ([]byte, error) {
	if c.PasswordFile == "" {
		return nil, nil
	}
	text, err := fsutil.ReadFile(c.PasswordFile)
	if err != nil {
		return nil, fmt.Errorf("upstream-password-file: %w", err)
	}
	words := []string{"AUTH"}
	if c.User != "" {
		words = append(words, c.User)
	}
	return encode(append(words, strings.TrimRight(string(text), "\r\n"))...), nil
}

// tlsConfig returns the configuration for a host, or nil without TLS.
func (c *Credentials) tlsConfig(host string) (*tls.Config, error) {
	if !c.TLS {
		return nil, nil
	}
	files := tlsclient.Files{
		CA: c.CACertFile, CAOption: "upstream-tls-ca-cert-file",
		Cert: c.CertFile, Key: c.KeyFile, PairOptions: "upstream-tls-cert-file and upstream-tls-key-file",
	}
	return files.Config(c.ServerName, host)
}

// connect opens an authenticated connection to an address. It fails when ctx is done.
func (c *Credentials) connect(ctx context.Context, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	config, err := c.tlsConfig(host)
	if err != nil {
		return nil, err
	}
	auth, err := c.auth()
	if err != nil {
		return nil, err
	}
	raw, err := c.open(ctx, addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })
	conn, err := greet(ctx, raw, config, auth)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	return conn, nil
}

// open opens a connection that is not authenticated.
func (c *Credentials) open(ctx context.Context, addr string) (net.Conn, error) {
	if c.dial != nil {
		return c.dial(ctx, addr)
	}
	dialer := &net.Dialer{KeepAlive: keepAlive}
	return dialer.DialContext(ctx, "tcp", addr)
}

// greet performs the TLS handshake, and authenticates. The connection that it returns must be used instead of conn.
func greet(ctx context.Context, conn net.Conn, config *tls.Config, auth []byte) (net.Conn, error) {
	if config != nil {
		encrypted := tls.Client(conn, config)
		if err := encrypted.HandshakeContext(ctx); err != nil {
			return conn, err
		}
		conn = encrypted
	}
	if auth == nil {
		return conn, nil
	}
	if _, err := conn.Write(auth); err != nil {
		return conn, err
	}
	reply, err := readLine(conn)
	err = closedBy(err, errNoGreeting)
	if err == nil && !strings.HasPrefix(reply, "+") {
		err = &authError{reply}
	}
	return conn, err
}

// authError is the reply of an upstream that refuses the credentials.
type authError struct{ reply string }

func (e *authError) Error() string { return "authenticate: " + strings.TrimPrefix(e.reply, "-") }
