// Package sourceaddr defines the addresses under which limits per address count clients.
package sourceaddr

import (
	"net"
	"net/netip"
)

// networkBits is the length of the IPv6 prefix that identifies a client. A network of this size usually belongs to one
// host or site, which may use any address in the network.
const networkBits = 64

// Of returns the address under which a client is counted: its IPv4 address, the loopback address of IPv6, or the first
// address of the network that contains its IPv6 address. It returns the zero Addr if addr is not a TCP address.
func Of(addr net.Addr) netip.Addr {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	ip, _ := netip.AddrFromSlice(tcp.IP)
	ip = ip.Unmap().WithZone("")
	if ip.Is6() && !ip.IsLoopback() {
		network, _ := ip.Prefix(networkBits) // fails only for an invalid number of bits
		return network.Addr()
	}
	return ip
}
