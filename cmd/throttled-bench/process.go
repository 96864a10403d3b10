package main

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// process is a running program on this machine.
type process struct{ pid int }

// usage is the CPU time that a process has used so far, and its current memory.
type usage struct {
	user, system float64 // seconds
	resident     int64   // bytes
}

// errNotFound is returned if the process cannot be determined, because it belongs to
// another user or the system has no /proc.
var errNotFound = errors.New("the process of the target was not found; it may belong to another user")

// serverOf returns the process that listens at the remote address of a connection. If that
// address is on a different machine, local is false and p is invalid.
func serverOf(conn net.Conn) (p process, local bool, err error) {
	var inodes []string
	switch remote := conn.RemoteAddr().(type) {
	case *net.TCPAddr:
		here, _ := conn.LocalAddr().(*net.TCPAddr)
		if !remote.IP.IsLoopback() && (here == nil || !here.IP.Equal(remote.IP)) {
			return process{}, false, nil
		}
		inodes = listenersAt(remote.AddrPort())
	case *net.UnixAddr:
		table, _ := os.ReadFile("/proc/net/unix")
		inodes = parseUnix(string(table), remote.Name)
	}
	for _, inode := range inodes {
		if pid, found := ownerOf(inode); found {
			return process{pid}, true, nil
		}
	}
	return process{}, true, errNotFound
}

// listenersAt returns the inodes of the sockets that accept connections to an address.
// Sockets bound to exactly this address precede those bound to all interfaces.
func listenersAt(at netip.AddrPort) []string {
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	var exact, wide []string
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		table, err := os.ReadFile(name) // #nosec G304 -- one of two constants
		if err != nil {
			continue
		}
		for _, s := range parseTCP(string(table)) {
			switch {
			case s.addr == at:
				exact = append(exact, s.inode)
			case s.addr.Port() == at.Port() && s.addr.Addr().IsUnspecified():
				wide = append(wide, s.inode)
			}
		}
	}
	return append(exact, wide...)
}

type listening struct {
	addr  netip.AddrPort
	inode string
}

// parseTCP returns the listening sockets of /proc/net/tcp or tcp6.
func parseTCP(table string) (list []listening) {
	const listens = "0A"
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 10 || f[3] != listens {
			continue
		}
		if addr, err := parseHexAddr(f[1]); err == nil {
			list = append(list, listening{addr, f[9]})
		}
	}
	return list
}

// parseHexAddr parses an address in the format of /proc: 32-bit words in native byte
// order, and the port.
func parseHexAddr(s string) (netip.AddrPort, error) {
	text, portText, _ := strings.Cut(s, ":")
	port, err := strconv.ParseUint(portText, 16, 16)
	if err != nil {
		return netip.AddrPort{}, err
	}
	b, err := hex.DecodeString(text)
	if err != nil || len(b)%4 != 0 {
		return netip.AddrPort{}, fmt.Errorf("bad address %q", s)
	}
	for word := range slices.Chunk(b, 4) {
		binary.NativeEndian.PutUint32(word, binary.BigEndian.Uint32(word))
	}
	addr, ok := netip.AddrFromSlice(b)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("bad address %q", s)
	}
	return netip.AddrPortFrom(addr.Unmap(), uint16(port)), nil
}

// parseUnix returns the inodes of the sockets in /proc/net/unix that listen on a path.
func parseUnix(table, path string) (inodes []string) {
	const accepts = "00010000" // flag of listening sockets
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) == 8 && f[3] == accepts && samePath(f[7], path) {
			inodes = append(inodes, f[6])
		}
	}
	return inodes
}

// samePath reports whether two paths of a socket are equal: the path a, to which the server
// has bound the socket, and the path b. If the path a is relative, only the last elements
// are compared.
func samePath(a, b string) bool {
	return a == b || !filepath.IsAbs(a) && filepath.Base(a) == filepath.Base(b)
}

// ownerOf returns the lowest pid of the processes that hold a socket. If children have
// inherited the socket, this is the pid of the parent.
func ownerOf(inode string) (pid int, found bool) {
	descriptors, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	want := "socket:[" + inode + "]"
	for _, d := range descriptors {
		if link, err := os.Readlink(d); err != nil || link != want {
			continue
		}
		n, err := strconv.Atoi(strings.Split(d, "/")[2])
		if err == nil && (!found || n < pid) {
			pid, found = n, true
		}
	}
	return pid, found
}

// usage returns the usage of the process so far.
func (p process) usage() (usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		return usage{}, err
	}
	return parseStat(string(stat))
}

// clockTick is the unit of CPU time in /proc, in seconds. It is the same on all Linux
// platforms that Go supports.
const clockTick = 0.01

// parseStat parses fields 14, 15 and 24 of /proc/PID/stat. The second field is a name in
// parentheses that may contain any bytes.
func parseStat(stat string) (usage, error) {
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(f) < 22 {
		return usage{}, fmt.Errorf("short stat: %q", stat)
	}
	var n [3]int64
	for i, field := range []int{11, 12, 21} {
		var err error
		if n[i], err = strconv.ParseInt(f[field], 10, 64); err != nil {
			return usage{}, err
		}
	}
	return usage{float64(n[0]) * clockTick, float64(n[1]) * clockTick, n[2] * int64(os.Getpagesize())}, nil
}

// ownCPU returns the CPU time of this program so far, in seconds.
func ownCPU() float64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}
