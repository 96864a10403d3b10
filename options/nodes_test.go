package options

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/topology"
)

// FuzzParseNodes checks that each accepted list has one node with an address that others can reach for each word, no name and no
// address twice, and is parsed from its text form again. upstream, a list of addresses only, accepts each of these addresses.
func FuzzParseNodes(f *testing.F) {
	for _, text := range []string{
		"", " \n", "n1=a:1", "n1=10.0.0.1:7000 n2=10.0.0.2:7000\tn3=[::1]:7000", "n1=a:1 n1=b:1", "n1=a:1 n2=a:1", "n1=", "=a:1", "n1=a", "n1=a:0", "n1=a:65536",
		"n1=:1", "n1=0.0.0.0:1", "n1=[::]:1", "n1=[::ffff:0.0.0.0]:1", "n1=*:1", "n-=a:1", "n1=a:1=b:2", "n1=a:+1", "n1=[fe80::1%eth0]:1", "n1=\x00:1",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ParseNodes(text)
		if err != nil {
			if list != nil {
				t.Errorf("%q: %v with the error %v, want no nodes", text, list, err)
			}
			return
		}
		words := strings.Fields(text)
		if len(list) != len(words) {
			t.Fatalf("%q: %d nodes, want %d", text, len(list), len(words))
		}
		var addrs []string
		seen := map[string]bool{}
		for i, n := range list {
			if topology.CheckName(n.ID) != nil || !reachable(n.Addr) || seen[n.ID] || seen[n.Addr] || n.ID+"="+n.Addr != words[i] {
				t.Errorf("%q: invalid node %+v", text, n)
			}
			seen[n.ID], seen[n.Addr] = true, true
			addrs = append(addrs, n.Addr)
		}
		if again, err := ParseNodes(nodes{&list}.String()); err != nil || !slices.Equal(again, list) {
			t.Errorf("%q: %v is parsed again as %v, error %v", text, list, again, err)
		}
		var upstream []string
		if err := (endpoints{&upstream}).Set(strings.Join(addrs, " ")); err != nil || !slices.Equal(upstream, addrs) {
			t.Errorf("%q: the addresses are %q for upstream, error %v, want %q", text, upstream, err, addrs)
		}
	})
}

// reachable reports whether an address has a host and a port to which others can connect.
func reachable(addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" || host == "*" {
		return false
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 1 || n > 65535 {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err != nil || ip != netip.IPv4Unspecified() && ip != netip.IPv6Unspecified() && ip.Unmap() != netip.IPv4Unspecified()
}
