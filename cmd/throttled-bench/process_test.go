package main

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestParseTCP(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:18EC 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 35567 1 0000 100 0 0 10 0
   1: 0100007F:18EC 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 99999 1 0000 20 4 30 10 -1
   2: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 71 1 0 100 0 0 10 0
   3: 0000000000000000FFFF00000100007F:0051 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 72 1 0 100 0 0 10 0
   4: zz:0051 0 0A 0 0 0 0 0 73 0
`
	want := []listening{
		{netip.MustParseAddrPort("127.0.0.1:6380"), "35567"},
		{netip.MustParseAddrPort("[::1]:80"), "71"},
		{netip.MustParseAddrPort("127.0.0.1:81"), "72"},
	}
	if got := parseTCP(table); !slices.Equal(got, want) {
		t.Errorf("listening sockets: %v; want %v", got, want)
	}
}

func TestParseUnix(t *testing.T) {
	const table = `Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 11 /run/a.sock
0000000000000000: 00000003 00000000 00000000 0001 03 12 /run/a.sock
0000000000000000: 00000002 00000000 00010000 0001 01 13 b.sock
0000000000000000: 00000002 00000000 00010000 0001 01 14
`
	f := func(path string, want ...string) {
		t.Helper()
		if got := parseUnix(table, path); !slices.Equal(got, want) {
			t.Errorf("inodes of %s: %v; want %v", path, got, want)
		}
	}
	f("/run/a.sock", "11")
	f("/run/b.sock", "13")
	f("/else/a.sock")
}

func TestParseStat(t *testing.T) {
	const tail = " S 1 2 3 4 -1 0 10 11 12 13 250 50 0 0 20 0 9 0 7777 1000000 300 0 0"
	want := usage{2.5, 0.5, 300 * int64(os.Getpagesize())}
	for _, name := range []string{"redis", "a) S 1 (b", ""} {
		if got, err := parseStat("42 (" + name + ")" + tail); err != nil || got != want {
			t.Errorf("usage of a process with the name %q: %+v, error %v; want %+v", name, got, err, want)
		}
	}
	for _, bad := range []string{"", "42 (x) S 1", "42 (x)" + " S 1 2 3 4 -1 0 10 11 12 13 x 50 0 0 20 0 9 0 7777 1000000 300"} {
		if got, err := parseStat(bad); err == nil {
			t.Errorf("parseStat(%q) = %+v; want an error", bad, got)
		}
	}
}

// TestServerOf checks that serverOf returns this process for each kind of listener.
func TestServerOf(t *testing.T) {
	f := func(network, address string) {
		t.Helper()
		listener, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = listener.Close() }()
		conn, err := net.Dial(network, listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		p, local, err := serverOf(conn)
		if p.pid != os.Getpid() || !local || err != nil {
			t.Fatalf("listener %s %s: process %d, local %v, error %v; want process %d, local", network, address, p.pid, local, err, os.Getpid())
		}
		if u, err := p.usage(); err != nil || u.resident < 1<<20 {
			t.Errorf("usage of this process: %+v, error %v; want at least 1 MiB of resident memory", u, err)
		}
	}
	f("tcp", "127.0.0.1:0")
	f("tcp", "0.0.0.0:0")
	f("tcp", "[::]:0")
	f("unix", filepath.Join(t.TempDir(), "s.sock"))
}
