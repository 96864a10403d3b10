package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// States of sockets in /proc/net/tcp.
const (
	stateEstablished = "01"
	stateTimeWait    = "06"
)

// socket is a line of /proc/net/tcp. Its addresses are texts such as 0100007F:1F90.
type socket struct {
	local, remote, state string
	unacknowledged       int64 // bytes written that the peer has not acknowledged
	unread               int64 // bytes received that the process has not read
}

// tcpSockets returns the IPv4 sockets of this machine.
func tcpSockets() ([]socket, error) {
	text, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return nil, err
	}
	return parseSockets(string(text))
}

// parseSockets reads /proc/net/tcp, whose first line has the names of the columns.
func parseSockets(text string) (list []socket, err error) {
	_, text, _ = strings.Cut(text, "\n")
	for line := range strings.Lines(text) {
		var s socket
		var number string
		if _, err := fmt.Sscanf(line, "%s %s %s %s %x:%x", &number, &s.local, &s.remote, &s.state, &s.unacknowledged, &s.unread); err != nil {
			return nil, fmt.Errorf("socket %q: %w", line, err)
		}
		list = append(list, s)
	}
	return list, nil
}

// kernelAddress returns an address of 127.0.0.1 as the kernel prints it.
func kernelAddress(addr string) (string, error) {
	port, err := strconv.Atoi(portOf(addr))
	return fmt.Sprintf("0100007F:%04X", port), err
}

// queuedFor returns the bytes that clients of the server at an address have written and the server has not read, with those in
// the buffers of the clients.
func queuedFor(addr string) (bytes int64, err error) {
	list, err := tcpSockets()
	if err != nil {
		return 0, err
	}
	server, err := kernelAddress(addr)
	for _, s := range list {
		switch {
		case s.state != stateEstablished:
		case s.local == server:
			bytes += s.unread
		case s.remote == server:
			bytes += s.unacknowledged
		}
	}
	return bytes, err
}

// timeWaits returns the number of connections that the server at an address closed first, and that wait for late segments.
func timeWaits(addr string) (n int, err error) {
	list, err := tcpSockets()
	if err != nil {
		return 0, err
	}
	server, err := kernelAddress(addr)
	for _, s := range list {
		if s.local == server && s.state == stateTimeWait {
			n++
		}
	}
	return n, err
}

// connectionsTo returns the open connections to any of the given addresses.
func connectionsTo(addrs ...string) (map[socket]bool, error) {
	list, err := tcpSockets()
	if err != nil {
		return nil, err
	}
	servers := map[string]bool{}
	for _, addr := range addrs {
		server, err := kernelAddress(addr)
		if err != nil {
			return nil, err
		}
		servers[server] = true
	}
	open := map[socket]bool{}
	for _, s := range list {
		if s.state == stateEstablished && servers[s.remote] {
			open[socket{local: s.local, remote: s.remote}] = true
		}
	}
	return open, nil
}
