package rules

import (
	"bytes"
	"net/netip"
)

// parseAddress parses an IP address as netip.ParseAddr does, and removes the zone of an IPv6 address. An IPv4 address
// that is mapped to IPv6 is returned as IPv4. The result is not valid if the text is no address.
//
// The values of attributes come from clients, so neither a zone nor an error may allocate memory, as they do in
// netip.ParseAddr.
func parseAddress(text []byte) netip.Addr {
	if at := bytes.IndexByte(text[:min(len(text), len("192."))], '.'); at > 0 && text[0] != ':' {
		return parseIPv4(text)
	}
	if at := bytes.IndexByte(text, '%'); at >= 0 {
		if at == len(text)-1 {
			return netip.Addr{} // the zone is empty
		}
		text = text[:at]
	}
	return parseIPv6(text)
}

// parseIPv4 parses four decimal numbers without leading zeros.
func parseIPv4(text []byte) netip.Addr {
	var octets [4]byte
	for i := range octets {
		n, used := parseOctet(text)
		last := i == len(octets)-1
		if used == 0 || last != (used == len(text)) || !last && text[used] != '.' {
			return netip.Addr{}
		}
		octets[i] = n
		if !last {
			text = text[used+1:]
		}
	}
	return netip.AddrFrom4(octets)
}

// parseOctet parses the digits at the start of text. used is 0 if they are not a number from 0 to 255.
func parseOctet(text []byte) (n byte, used int) {
	value := 0
	for used < len(text) && used < 4 && '0' <= text[used] && text[used] <= '9' {
		value = value*10 + int(text[used]-'0')
		used++
	}
	if value > 255 || used > 1 && text[0] == '0' {
		return 0, 0
	}
	return byte(value), used
}

// parseIPv6 parses groups of hexadecimal digits, of which "::" may replace some, and the last two may be an IPv4
// address.
func parseIPv6(text []byte) netip.Addr {
	var octets [16]byte
	n, gap := 0, -1 // number of octets; number of octets before "::"
	if bytes.HasPrefix(text, []byte("::")) {
		gap, text = 0, text[2:]
	}
	for len(text) > 0 {
		size, rest := parseGroup(octets[n:], text)
		n += size
		switch {
		case size == 0:
			return netip.Addr{}
		case len(rest) == 0:
		case n == len(octets), len(rest) == 1: // more text, or a colon at the end
			return netip.Addr{}
		case rest[1] == ':' && gap >= 0: // a second "::"
			return netip.Addr{}
		case rest[1] == ':':
			gap, rest = n, rest[2:]
		default:
			rest = rest[1:]
		}
		text = rest
	}
	if (gap < 0) != (n == len(octets)) {
		return netip.Addr{}
	}
	if gap >= 0 {
		copy(octets[len(octets)-(n-gap):], octets[gap:n])
		clear(octets[gap : len(octets)-(n-gap)])
	}
	return netip.AddrFrom16(octets).Unmap()
}

// parseGroup parses one group, or an IPv4 address at the end, to dst. It returns the number of octets, or 0 if the text
// is wrong, and the text after it: empty, or starting with a colon.
func parseGroup(dst, text []byte) (size int, rest []byte) {
	value, used := 0, 0
	for ; used < len(text) && used < 4; used++ {
		digit := hexDigit(text[used])
		if digit < 0 {
			break
		}
		value = value<<4 | digit
	}
	rest = text[used:]
	switch {
	case used == 0 || len(dst) < 2:
		return 0, nil
	case len(rest) > 0 && rest[0] == '.':
		address := parseIPv4(text)
		if !address.IsValid() || len(dst) < 4 {
			return 0, nil
		}
		octets := address.As4()
		return copy(dst, octets[:]), nil
	case len(rest) > 0 && rest[0] != ':':
		return 0, nil
	}
	dst[0], dst[1] = byte(value>>8), byte(value)
	return 2, rest
}

// hexDigit returns the value of a hexadecimal digit, or -1.
func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
