package server

import (
	"net"
	"net/netip"
)

// sourceBits is the length of the IPv6 prefix that identifies a client. A network of this size usually belongs to one
// host or site, which may use any address in the network.
const sourceBits = 64

// sourceOf returns the address under which limits per address count a client: its IPv4 address, or the first address of
// the network that contains its IPv6 address. It returns the zero Addr if addr is not a TCP address.
func sourceOf(addr net.Addr) netip.Addr {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	ip, _ := netip.AddrFromSlice(tcp.IP)
	ip = ip.Unmap().WithZone("")
	if ip.Is6() {
		network, _ := ip.Prefix(sourceBits) // fails only for an invalid number of bits
		return network.Addr()
	}
	return ip
}
