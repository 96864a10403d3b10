package server

import (
	"net"
	"net/netip"
)

// sourceBits is how much of an IPv6 address counts: a network of this size has one owner, who may
// use any address in it.
const sourceBits = 64

// sourceOf returns the address that a connection comes from, as limits by address count it: an
// IPv4 address, or the first address of an IPv6 network. It is the zero Addr where there is none.
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
