package main

import (
	"io"
	"net"
	"testing"
	"time"
)

func TestParseSockets(t *testing.T) {
	const text = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n" +
		"   0: 0100007F:1F90 0200007F:C001 01 000000FF:00001000 01:00000014 00000000     0        0 5 1\n"
	list, err := parseSockets(text)
	want := socket{local: "0100007F:1F90", remote: "0200007F:C001", state: stateEstablished, unacknowledged: 255, unread: 4096}
	if err != nil || len(list) != 1 || list[0] != want {
		t.Errorf("got %+v, error %v; want %+v", list, err, want)
	}
	if _, err := parseSockets("names\n  0: short\n"); err == nil {
		t.Error("a short line is accepted")
	}
}

// TestQueuedFor writes to a server that does not read.
func TestQueuedFor(t *testing.T) {
	client, server := connected(t)
	addr := server.LocalAddr().String()
	open, err := connectionsTo(addr)
	if err != nil || len(open) != 1 {
		t.Errorf("connections: %v, error %v; want one", open, err)
	}
	const size = 5000
	if _, err := client.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	awaitQueued(t, addr, size)
	if _, err := io.ReadFull(server, make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	awaitQueued(t, addr, 0)
}

// awaitQueued waits until queuedFor returns want: the kernel may count bytes at both ends until it has handled an
// acknowledgment.
func awaitQueued(t *testing.T, addr string, want int64) {
	t.Helper()
	for end := time.Now().Add(replyPatience); ; time.Sleep(time.Millisecond) { // polls a state of the kernel
		got, err := queuedFor(addr)
		if err == nil && got == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d bytes are queued, error %v; want %d", got, err, want)
		}
	}
}

// connected returns both ends of a connection.
func connected(t *testing.T) (client, server net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		defer func() { _ = ln.Close() }()
		client, err = net.Dial("tcp", ln.Addr().String())
	}
	if err == nil {
		server, err = ln.Accept()
		t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	}
	if err != nil {
		t.Fatal(err)
	}
	return client, server
}
