package sourceaddr

import (
	"net"
	"testing"
)

// TestOf checks that all addresses of an IPv6 network are counted together.
func TestOf(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.1":            "192.0.2.1",
		"::ffff:192.0.2.1":     "192.0.2.1",
		"2001:db8:1:2::1":      "2001:db8:1:2::",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::",
		"2001:db8:1:2:ffff::":  "2001:db8:1:2::",
		"2001:db8:1:3::1":      "2001:db8:1:3::",
		"127.0.0.1":            "127.0.0.1",
		"::1":                  "::1",
	} {
		if got := Of(&net.TCPAddr{IP: net.ParseIP(addr), Zone: "eth0"}); got.String() != want {
			t.Errorf("%s is counted for %v, want %s", addr, got, want)
		}
	}
	if got := Of(&net.UnixAddr{}); got.IsValid() {
		t.Errorf("a socket without an IP address is counted for %v, want none", got)
	}
}
