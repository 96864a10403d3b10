package server

import (
	"net"
	"net/netip"
)

// sourceBits is the prefix length of an IPv6 address that identifies a client: a network of this
// size usually belongs to one host or site, which may use any address in it.
const sourceBits = 64

// sourceOf returns the source address of a connection for limits by address: an IPv4 address, or the
// first address of an IPv6 network. It returns the zero Addr if addr is not a TCP address.
func sourceOf(addr net.Addr) netip.Addr {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	ip, _ := netip.AddrFromSlice(tcp.IP)
	ip = ip.Unmap().WithZone("")
	if ip.Is6() {
		network, _ := ip.Prefix(sourceBits) // fails for other numbers of bits only
		return network.Addr()
	}
	return ip
}
