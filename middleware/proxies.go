package middleware

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxies determines the addresses of clients behind proxies. The zero value trusts no proxy.
type Proxies struct {
	// Trusted holds the networks of the proxies whose entries in X-Forwarded-For are believed.
	Trusted []netip.Prefix
	// IPv6Bits is the length of the prefix of IPv6 addresses that identifies a client. The default is 64, because one client
	// usually has a whole /64 network.
	IPv6Bits int
}

// Addr returns the address of the client of a request: the peer, or if this is a trusted proxy, the right-most entry of
// X-Forwarded-For that is not one. Entries to the left of it can be forged. If an entry is not an address, the result is the
// address of the proxy that has sent it. The result is not valid if the address of the peer is unknown.
func (p Proxies) Addr(r *http.Request) netip.Addr {
	addr, _ := parseAddr(r.RemoteAddr)
	if !p.trusts(addr) {
		return addr
	}
	for _, header := range slices.Backward(r.Header.Values("X-Forwarded-For")) {
		for rest, more := header, true; more; {
			var entry string
			rest, entry, more = cutLast(rest)
			next, ok := parseAddr(entry)
			if !ok {
				return addr
			}
			if addr = next; !p.trusts(addr) {
				return addr
			}
		}
	}
	return addr
}

// cutLast splits a list at its last comma.
func cutLast(list string) (before, last string, more bool) {
	at := strings.LastIndexByte(list, ',')
	if at < 0 {
		return "", list, false
	}
	return list[:at], list[at+1:], true
}

// Key returns the text that identifies the client of a request in limits: its IPv4 address, or the network of its IPv6
// address.
func (p Proxies) Key(r *http.Request) string { return p.KeyOf(p.Addr(r)) }

// KeyOf returns the text that identifies the client with an address. It is "unknown" for an address that is not valid.
func (p Proxies) KeyOf(addr netip.Addr) string {
	if !addr.IsValid() {
		return "unknown"
	}
	if addr.Is4() {
		return addr.String()
	}
	bits := p.IPv6Bits
	if bits < 1 || bits > 128 {
		bits = 64
	}
	network, err := addr.Prefix(bits)
	if err != nil {
		return "unknown" // not reached: bits is in range
	}
	return network.String()
}

// trusts reports whether addr is that of a trusted proxy.
func (p Proxies) trusts(addr netip.Addr) bool {
	return slices.ContainsFunc(p.Trusted, func(network netip.Prefix) bool { return network.Contains(addr) })
}

// parseAddr returns the address in a text such as "192.0.2.1", "192.0.2.1:80", "2001:db8::1" or "[2001:db8::1]:80".
func parseAddr(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if peer, err := netip.ParseAddrPort(text); err == nil {
		return peer.Addr().Unmap().WithZone(""), true
	}
	if inside, ok := strings.CutPrefix(text, "["); ok {
		text = strings.TrimSuffix(inside, "]")
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}, false
	}
	return addr.Unmap().WithZone(""), true
}
