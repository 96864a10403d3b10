package server

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// keyUpdater encrypts requests for key updates of TLS 1.3, which package tls cannot send. It uses TLS_AES_128_GCM_SHA256.
type keyUpdater struct{ secret []byte }

// newKeyUpdater returns the keyUpdater of a connection whose keys are in a log, and on which the client has sent nothing.
func newKeyUpdater(t *testing.T, keys string) *keyUpdater {
	t.Helper()
	for line := range strings.Lines(keys) {
		if words := strings.Fields(line); len(words) == 3 && words[0] == "CLIENT_TRAFFIC_SECRET_0" {
			secret, err := hex.DecodeString(words[2])
			if err != nil || len(secret) != sha256.Size {
				t.Fatalf("a secret of %d bytes: %v", len(secret), err)
			}
			return &keyUpdater{secret}
		}
	}
	t.Fatal("the log has no secret")
	return nil
}

func (k *keyUpdater) expand(t *testing.T, label string, n int) []byte {
	t.Helper()
	label = "tls13 " + label
	info := append(binary.BigEndian.AppendUint16(nil, uint16(n)), byte(len(label)))
	out, err := hkdf.Expand(sha256.New, k.secret, string(append(info, label...))+"\x00", n)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// record returns the next record: a key update that requests one of the server.
func (k *keyUpdater) record(t *testing.T) []byte {
	t.Helper()
	block, err := aes.NewCipher(k.expand(t, "key", 16))
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	inner := []byte{24, 0, 0, 1, 1, 22}
	header := []byte{23, 3, 3, 0, byte(len(inner) + aead.Overhead())}
	sealed := aead.Seal(header, k.expand(t, "iv", 12), inner, header)
	k.secret = k.expand(t, "traffic upd", sha256.Size)
	return sealed
}

// TestTLSKeyUpdates checks that the answers to key updates are sent although no reply follows.
func TestTLSKeyUpdates(t *testing.T) {
	s := startSecure(t, setup{})
	raw, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	_ = raw.SetDeadline(time.Now().Add(patience))
	var keys bytes.Buffer
	config := s.site.Client(nil)
	config.MinVersion, config.KeyLogWriter = tls.VersionTLS13, &keys
	conn := tls.Client(raw, config)
	if err := conn.Handshake(); err != nil {
		t.Fatal(err)
	}
	if suite := conn.ConnectionState().CipherSuite; suite != tls.TLS_AES_128_GCM_SHA256 {
		t.Skipf("the cipher suite is %s", tls.CipherSuiteName(suite))
	}
	updater := newKeyUpdater(t, keys.String())
	for range 10 {
		update := updater.record(t)
		if _, err := raw.Write(update); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, len(update))
		if _, err := io.ReadFull(raw, answer); err != nil || answer[0] != 23 {
			t.Fatalf("the answer is %x, error %v", answer, err)
		}
	}
}

// TestCiphertext_Unread checks that the answers which a client does not read are bounded.
func TestCiphertext_Unread(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	s := newSocket(conn)
	c := &ciphertext{Conn: conn, socket: s}
	s.control(func(fd int) { s.fd = uintptr(fd) })
	c.useDescriptor(true)
	piece, sent := make([]byte, flushAt), 0
	for ; sent < 64<<20; sent += len(piece) {
		if _, err := c.Write(piece); err != nil {
			t.Fatal(err)
		}
		if _, err = c.Read(make([]byte, 1)); errors.Is(err, errUnreadCipher) {
			break
		}
		if !errors.Is(err, errNothing) {
			t.Fatalf("read: %v", err)
		}
	}
	if sent >= 64<<20 || len(c.out) > maxCipher+len(piece) {
		t.Errorf("%d bytes are left after %d bytes that the client does not read", len(c.out), sent)
	}
}
