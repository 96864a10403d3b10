package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const defaultTarget = "127.0.0.1:6380"

// target is a server to measure.
type target struct {
	name     string // for reports; does not contain the password
	network  string // "tcp" or "unix"
	address  string
	user     string
	password string
}

// parseTarget parses host:port, redis://[user:password@]host:port, or the path of a Unix
// socket. A path must contain a slash or have the prefix "unix:".
func parseTarget(s string) (target, error) {
	if scheme, _, found := strings.Cut(s, "://"); found {
		return parseURL(s, scheme)
	}
	if path, found := strings.CutPrefix(s, "unix:"); found || strings.Contains(s, "/") {
		return target{name: path, network: "unix", address: path}, nil
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return target{}, errors.New("must be host:port, redis://[user:password@]host:port or the path of a Unix socket")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return target{}, fmt.Errorf("port %q: must be 1 to 65535", port)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	address := net.JoinHostPort(host, port)
	return target{name: address, network: "tcp", address: address}, nil
}

func parseURL(s, scheme string) (target, error) {
	if scheme != "redis" {
		return target{}, fmt.Errorf("scheme %q is not supported: only redis", scheme)
	}
	u, err := url.Parse(s)
	if err != nil {
		return target{}, errors.New("not a URL") // the error of Parse contains the password
	}
	if u.Path != "" && u.Path != "/" && u.Path != "/0" {
		return target{}, errors.New("only database 0 is supported")
	}
	port := u.Port()
	if port == "" {
		port = "6379"
	}
	t, err := parseTarget(net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return target{}, err
	}
	t.user = u.User.Username()
	t.password, _ = u.User.Password()
	return t, nil
}

// withoutPassword returns an argument without the user and password of a URL.
func withoutPassword(arg string) string {
	scheme, rest, found := strings.Cut(arg, "://")
	if at := strings.LastIndexByte(rest, '@'); found && at >= 0 {
		return scheme + "://..." + rest[at:]
	}
	return arg
}

// dial connects and authenticates. The timeout applies to each of the two steps.
func (t target) dial(ctx context.Context, timeout time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: timeout}
	conn, err := d.DialContext(ctx, t.network, t.address)
	if err != nil {
		return nil, err
	}
	if err := t.logIn(conn, timeout); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func (t target) logIn(conn net.Conn, timeout time.Duration) error {
	words := []string{"AUTH", t.user, t.password}
	switch {
	case t.password == "":
		return nil
	case t.user == "":
		words = []string{"AUTH", t.password}
	}
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	if _, err := conn.Write(encode(words)); err != nil {
		return fmt.Errorf("log in: %w", err)
	}
	line := make([]byte, 0, 512)
	for len(line) < cap(line) && !strings.HasSuffix(string(line), "\r\n") {
		n, err := conn.Read(line[len(line):cap(line)])
		if err != nil {
			return fmt.Errorf("log in: %w", err)
		}
		line = line[:len(line)+n]
	}
	if line[0] != '+' {
		return fmt.Errorf("log in: the target replies %q", strings.TrimSpace(string(line)))
	}
	return conn.SetDeadline(time.Time{})
}

// encode returns a command in the Redis protocol.
func encode(words []string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, w := range words {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b
}
