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

// usage is what a process has used so far.
type usage struct {
	user, system float64 // seconds
	resident     int64   // bytes
}

// errNotFound says that no process could be named: it is another user's, or there is no
// /proc here.
var errNotFound = errors.New("the target's process was not found: it may be another user's")

// serverOf returns the process that listens at the other end of a connection. Local is
// false if that is another machine, about which nothing can be said.
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

// listenersAt returns the sockets that accept connections to an address, those that
// listen to just this address first.
func listenersAt(at netip.AddrPort) []string {
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	var exact, wide []string
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		table, err := os.ReadFile(name)
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

// parseHexAddr reads an address as /proc writes it: words of 32 bits in the machine's
// byte order, and the port.
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

// parseUnix returns the sockets of /proc/net/unix that listen on a path.
func parseUnix(table, path string) (inodes []string) {
	const accepts = "00010000" // a flag that only listening sockets have
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) == 8 && f[3] == accepts && samePath(f[7], path) {
			inodes = append(inodes, f[6])
		}
	}
	return inodes
}

// samePath allows for a server that has bound its socket by a relative path.
func samePath(a, b string) bool {
	return a == b || !filepath.IsAbs(a) && filepath.Base(a) == filepath.Base(b)
}

// ownerOf returns the process with the lowest number that holds a socket: the parent, if
// others inherit it.
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

// usage reads what the process has used so far.
func (p process) usage() (usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		return usage{}, err
	}
	return parseStat(string(stat))
}

// clockTick is /proc's unit of CPU time in seconds; the same on every Linux that Go
// programs meet.
const clockTick = 0.01

// parseStat reads fields 14, 15 and 24 of /proc/PID/stat. The second field is a name in
// brackets that may hold anything.
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

// ownCPU returns the seconds of CPU that this program has used.
func ownCPU() float64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}
