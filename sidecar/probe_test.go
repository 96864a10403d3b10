package sidecar

import (
	"bufio"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// TestOpenProber_Errors connects to servers that do not answer probes. The error must name the reason.
func TestOpenProber_Errors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	write(t, file, "secret")
	plain, login := Credentials{}, Credentials{PasswordFile: file}
	for _, tt := range []struct {
		credentials Credentials
		reply       string // before the server closes the connection
		want        string
	}{
		{plain, "", errNoGreeting.Error()},
		{login, "", errNoGreeting.Error()},
		{plain, "-DENIED no password is set\r\n", "DENIED no password is set"},
		{login, "-DENIED no password is set\r\n", "DENIED no password is set"},
		{plain, "HTTP/1.1 400 Bad Request\r\n\r\n", errFormat.Error()},
		{login, "HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP/1.1 400 Bad Request"},
		{plain, "-MOVED 7 127.0.0.1:6384\r\n-MOVED 7 127.0.0.1:6384\r\n", "not of cluster-port"},
	} {
		p, err := openProber(t.Context(), &tt.credentials, serveOnce(t, tt.reply))
		if err == nil {
			p.close()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("reply %q, password file %q: got error %v, want %q", tt.reply, tt.credentials.PasswordFile, err, tt.want)
		}
	}
}

// serveOnce returns the address of a server that reads the start of a command, replies, and closes the connection.
func serveOnce(t *testing.T, reply string) string {
	t.Helper()
	ln := mustListen(t)
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		in := bufio.NewReader(conn)
		_, _ = in.ReadString('\n')
		_, _ = conn.Write([]byte(reply))
		_ = conn.(*net.TCPConn).CloseWrite()
		_, _ = in.WriteTo(io.Discard) // unread bytes would reset the connection, and could discard the reply
		_ = conn.Close()
	}()
	return ln.Addr().String()
}
