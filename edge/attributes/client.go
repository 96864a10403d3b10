package attributes

import (
	"net/netip"
	"strings"

	"github.com/gaissmai/bart"
)

// Proxies is the networks of the proxies that are trusted to append the address of their client to X-Forwarded-For or
// Forwarded. A nil *Proxies trusts no address. It does not change, and may be used by several goroutines.
type Proxies struct{ networks bart.Lite }

// NewProxies returns the Proxies with a list of networks.
func NewProxies(networks []netip.Prefix) *Proxies {
	p := &Proxies{}
	for _, network := range networks {
		p.networks.Insert(unmapped(network))
	}
	return p
}

// unmapped returns the IPv4 network of a network of IPv4 addresses that are mapped to IPv6, because addresses are compared
// as IPv4.
func unmapped(network netip.Prefix) netip.Prefix {
	if address := network.Addr(); address.Is4In6() && network.Bits() >= 96 {
		return netip.PrefixFrom(address.Unmap(), network.Bits()-96)
	}
	return network
}

// Trusts reports whether the address is that of a trusted proxy.
func (p *Proxies) Trusts(address netip.Addr) bool {
	return p != nil && p.networks.Contains(plain(address))
}

// The headers to which proxies append the address of their client.
const (
	XForwardedFor = "X-Forwarded-For"
	Forwarded     = "Forwarded"
)

// Client returns the address of the client by the lines of one of these headers.
func (p *Proxies) Client(header string, peer netip.Addr, lines []string) netip.Addr {
	if header == Forwarded {
		return p.clientOfForwarded(peer, lines)
	}
	return p.clientOfXForwardedFor(peer, lines)
}

// clientOfXForwardedFor returns the address of the client: the right-most address that no trusted proxy has, of the lines
// of X-Forwarded-For and then the peer. If all are trusted, it is the left-most one. The lines are in the order of the
// request. Ports and zones are removed, and an IPv4 address that is mapped to IPv6 is returned as IPv4.
//
// An entry that is no address ends the search: its proxy has not added the address of its client, so the result is the
// address of that proxy. Entries to the left of it may have been added by the client.
func (p *Proxies) clientOfXForwardedFor(peer netip.Addr, lines []string) netip.Addr {
	return p.client(peer, lines, lastEntry, parseNode)
}

// clientOfForwarded is like clientOfXForwardedFor for the lines of Forwarded (RFC 7239). An obfuscated identifier, such as
// "_gateway", or "unknown" is no address.
func (p *Proxies) clientOfForwarded(peer netip.Addr, lines []string) netip.Addr {
	return p.client(peer, lines, lastElement, parseElement)
}

// client follows the entries of a header from the right.
func (p *Proxies) client(peer netip.Addr, lines []string, last func(string) (string, string, bool), parse func(string) netip.Addr) netip.Addr {
	peer = plain(peer)
	for i := len(lines) - 1; i >= 0; i-- {
		for rest, more := lines[i], true; more; {
			if !p.Trusts(peer) {
				return peer
			}
			var entry string
			rest, entry, more = last(rest)
			address := parse(entry)
			if !address.IsValid() {
				return peer
			}
			peer = address
		}
	}
	return peer
}

// plain removes the zone of an address, and returns an IPv4 address that is mapped to IPv6 as IPv4.
func plain(address netip.Addr) netip.Addr { return address.WithZone("").Unmap() }

// lastEntry splits a list at its last comma. more reports whether there is a comma.
func lastEntry(list string) (rest, entry string, more bool) {
	if at := strings.LastIndexByte(list, ','); at >= 0 {
		return list[:at], list[at+1:], true
	}
	return "", list, false
}

// parseNode parses an address with an optional port: "192.0.2.1", "192.0.2.1:80", "2001:db8::1", "[2001:db8::1]" or
// "[2001:db8::1]:80". The result is not valid if the text is something else.
func parseNode(text string) netip.Addr {
	text = trimSpace(text)
	host, port := text, ""
	if strings.HasPrefix(text, "[") {
		end := strings.IndexByte(text, ']')
		if end < 0 || !strings.Contains(text[:end], ":") {
			return netip.Addr{}
		}
		host, port = text[1:end], text[end+1:]
	} else if at := strings.IndexByte(text, ':'); at >= 0 && strings.IndexByte(text[:at], '.') >= 0 {
		host, port = text[:at], text[at:]
	}
	if len(host) > maxAddress || port != "" && !isPort(port) {
		return netip.Addr{}
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return plain(address)
}

// maxAddress is the length of the longest text that parseNode parses: an IPv6 address with a zone.
const maxAddress = 64

// isPort reports whether text is a colon and a port: a number, or an obfuscated port such as "_a1".
func isPort(text string) bool {
	port := text[1:]
	if text[0] != ':' || port == "" {
		return false
	}
	if port[0] == '_' {
		return isObfuscated(port[1:])
	}
	for i := range len(port) {
		if port[i] < '0' || port[i] > '9' {
			return false
		}
	}
	return len(port) <= 5
}

// isObfuscated reports whether text has at least one character, and only those of an obfuscated identifier.
func isObfuscated(text string) bool {
	for i := range len(text) {
		if c := text[i]; !isLetterOrDigit(c) && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return text != ""
}

func isLetterOrDigit(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
}

// trimSpace removes spaces and tabs around a text.
func trimSpace(text string) string { return strings.Trim(text, " \t") }
