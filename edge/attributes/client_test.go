package attributes

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
)

func newProxies(words ...string) *Proxies {
	var networks []netip.Prefix
	for _, word := range words {
		networks = append(networks, netip.MustParsePrefix(word))
	}
	return NewProxies(networks)
}

func TestProxies(t *testing.T) {
	p := newProxies("127.0.0.0/8", "::1/128", "10.0.0.0/8", "::ffff:172.16.0.0/108", "2001:db8::/32")
	for text, want := range map[string]bool{"127.0.0.1": true, "::1": true, "::ffff:10.1.2.3": true, "10.1.2.3": true, "11.1.2.3": false,
		"172.31.0.1": true, "172.32.0.1": false, "2001:db8:1::2%eth0": true, "2001:db9::": false, "::2": false} {
		if got := p.Trusts(netip.MustParseAddr(text)); got != want {
			t.Errorf("Trusts(%s): %t, want %t", text, got, want)
		}
	}
	if p.Trusts(netip.Addr{}) || (*Proxies)(nil).Trusts(netip.MustParseAddr("::1")) {
		t.Error("the zero address, or an address of no proxies, is trusted")
	}
}

func TestClientOfXForwardedFor(t *testing.T) {
	p := newProxies("127.0.0.1/32", "10.0.0.0/8", "fd00::/8")
	const client, v6 = "192.0.2.1", "2001:db8::1"
	for _, c := range []struct {
		peer  string
		lines []string
		want  string
	}{
		{"127.0.0.1", nil, "127.0.0.1"},
		{"::ffff:127.0.0.1", nil, "127.0.0.1"},
		{client, []string{"198.51.100.1"}, client}, // the peer is not a proxy
		{"127.0.0.1", []string{client}, client},
		{"127.0.0.1", []string{"198.51.100.9, " + client}, client},
		{"127.0.0.1", []string{"198.51.100.9, " + client + " , 10.0.0.1,10.0.0.2"}, client},
		{"127.0.0.1", []string{"198.51.100.9", client}, client},
		{"127.0.0.1", []string{client, "10.0.0.1", "10.0.0.2, 10.0.0.3"}, client},
		{"127.0.0.1", []string{"10.0.0.3, 10.0.0.2", "10.0.0.1"}, "10.0.0.3"}, // all trusted
		{"127.0.0.1", []string{"garbage, " + client}, client},
		{"127.0.0.1", []string{client + ", garbage"}, "127.0.0.1"},
		{"127.0.0.1", []string{client + ", garbage, 10.0.0.1"}, "10.0.0.1"},
		{"127.0.0.1", []string{client + ", unknown, 10.0.0.1"}, "10.0.0.1"},
		{"127.0.0.1", []string{client + ", , 10.0.0.1"}, "10.0.0.1"},
		{"127.0.0.1", []string{client + ","}, "127.0.0.1"},
		{"127.0.0.1", []string{client, ""}, "127.0.0.1"},
		{"127.0.0.1", []string{"", client}, client},
		{"127.0.0.1", []string{", " + client}, client},
		{"127.0.0.1", []string{client + ":8080"}, client},
		{"127.0.0.1", []string{client + ":"}, "127.0.0.1"},
		{"127.0.0.1", []string{client + ":x"}, "127.0.0.1"},
		{"127.0.0.1", []string{client + ":123456"}, "127.0.0.1"},
		{"127.0.0.1", []string{client + "/32"}, "127.0.0.1"},
		{"127.0.0.1", []string{"192.0.2.01"}, "127.0.0.1"},
		{"127.0.0.1", []string{"0x7f.1"}, "127.0.0.1"},
		{"127.0.0.1", []string{"3221225985"}, "127.0.0.1"},
		{"127.0.0.1", []string{"\t" + v6 + "\t"}, v6},
		{"127.0.0.1", []string{"[" + v6 + "]"}, v6},
		{"127.0.0.1", []string{"[" + v6 + "]:443"}, v6},
		{"127.0.0.1", []string{"[" + v6 + "]443"}, "127.0.0.1"},
		{"127.0.0.1", []string{"[" + v6}, "127.0.0.1"},
		{"127.0.0.1", []string{"[" + client + "]:80"}, "127.0.0.1"},
		{"127.0.0.1", []string{"2001:DB8:0::1"}, v6},
		{"127.0.0.1", []string{"::ffff:192.0.2.1"}, client},
		{"127.0.0.1", []string{"[::ffff:192.0.2.1]:1"}, client},
		{"127.0.0.1", []string{client + ", ::ffff:10.1.1.1"}, client},
		{"127.0.0.1", []string{"fe80::1%eth0"}, "fe80::1"},
		{"127.0.0.1", []string{"fe80::1%" + strings.Repeat("z", 100)}, "127.0.0.1"},
		{"fd00::1", []string{v6 + ", fd00::2"}, v6},
	} {
		if got := p.clientOfXForwardedFor(netip.MustParseAddr(c.peer), c.lines); got.String() != c.want {
			t.Errorf("peer %s, X-Forwarded-For %q: %s, want %s", c.peer, c.lines, got, c.want)
		}
	}
}

func TestClientOfForwarded(t *testing.T) {
	p := newProxies("127.0.0.1/32", "10.0.0.0/8")
	const client, v6, peer = "192.0.2.1", "2001:db8::1", "127.0.0.1"
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{nil, peer},
		{[]string{"for=192.0.2.1"}, client},
		{[]string{"For=192.0.2.1;proto=https;by=10.0.0.1"}, client},
		{[]string{"proto=https; FOR=192.0.2.1 ; by=10.0.0.1"}, client},
		{[]string{";;for=192.0.2.1;"}, client},
		{[]string{`for="192.0.2.1"`}, client},
		{[]string{`for="192.0.2.1:4711"`}, client},
		{[]string{`for="192.0.2.1:_port"`}, client},
		{[]string{`for="192.0.2.1:_"`}, peer},
		{[]string{`for="[2001:db8::1]"`}, v6},
		{[]string{`for="[2001:db8::1]:4711";host="a,b;c"`}, v6},
		{[]string{`for=198.51.100.9, for="192.0.2.1";host="x, for=198.51.100.7"`}, client},
		{[]string{"for=198.51.100.9", "for=192.0.2.1, for=10.0.0.1"}, client},
		{[]string{"for=10.0.0.2", "for=10.0.0.1"}, "10.0.0.2"},
		{[]string{"for=192.0.2.1, for=unknown"}, peer},
		{[]string{"for=192.0.2.1, for=unknown, for=10.0.0.1"}, "10.0.0.1"},
		{[]string{"for=192.0.2.1, for=_hidden, for=10.0.0.1"}, "10.0.0.1"},
		{[]string{`for=192.0.2.1, for="_gazonk:80", for=10.0.0.1`}, "10.0.0.1"},
		{[]string{"for=192.0.2.1, proto=http"}, peer},
		{[]string{"for=192.0.2.1, 198.51.100.9"}, peer},
		{[]string{"for=192.0.2.1;for=198.51.100.9"}, peer},
		{[]string{"for=192.0.2.1, "}, peer},
		{[]string{"for=192.0.2.1;=x"}, peer},
		{[]string{`for="192.0.2.1"x`}, peer},
		{[]string{`for=192.0.2.1"`}, peer},
		{[]string{`for="192.0.2.1`}, peer},
		{[]string{`for="192.0.2\.1"`}, peer},
		// The client has sent the part before the last comma.
		{[]string{`for=", for=192.0.2.1`}, client},
		{[]string{`for="x, for="[2001:db8::1]"`}, v6},
		{[]string{`x\, for="[2001:db8::1]"`}, v6},
		{[]string{`for="\", for="[2001:db8::1]";host="a\"b"`}, v6},
	} {
		if got := p.clientOfForwarded(netip.MustParseAddr(peer), c.lines); got.String() != c.want {
			t.Errorf("Forwarded %q: %s, want %s", c.lines, got, c.want)
		}
	}
}

// TestClient_Spoofed checks requests that pass through proxies, each of which appends the address of its peer. The headers
// that the client has sent do not affect the result, which is the address of the client.
func TestClient_Spoofed(t *testing.T) {
	p := newProxies("10.0.0.0/8", "fd00::/8")
	random := rand.New(rand.NewPCG(3, 4))
	junk := []string{",", `"`, `\`, ";", "for=", "10.0.0.1", "203.0.113.7", "[", "]", ":80", " ", "unknown", "_x", "fd00::1", "=", ""}
	for range 100_000 {
		var sent strings.Builder
		for range random.IntN(10) {
			sent.WriteString(junk[random.IntN(len(junk))])
		}
		client := netip.AddrFrom4([4]byte{192, 0, 2, byte(random.Uint32())})
		if random.IntN(2) == 0 {
			client = netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, 15: byte(random.Uint32())})
		}
		xff, forwarded := []string{sent.String()}, []string{sent.String()}
		peer := client
		for range 1 + random.IntN(3) {
			if random.IntN(3) == 0 {
				xff, forwarded = append(xff, peer.String()), append(forwarded, element(peer))
			} else {
				xff[len(xff)-1] += ", " + peer.String()
				forwarded[len(forwarded)-1] += ", " + element(peer)
			}
			peer = netip.AddrFrom4([4]byte{10, 0, byte(random.Uint32()), 1})
		}
		if got := p.clientOfXForwardedFor(peer, xff); got != client {
			t.Fatalf("X-Forwarded-For %q: %s, want %s", xff, got, client)
		}
		if got := p.clientOfForwarded(peer, forwarded); got != client {
			t.Fatalf("Forwarded %q: %s, want %s", forwarded, got, client)
		}
	}
}

// element returns the element of Forwarded that a proxy appends.
func element(peer netip.Addr) string {
	if peer.Is4() {
		return "for=" + peer.String() + `;host="a,\"b"`
	}
	return `proto=https;for="[` + peer.String() + `]:443"`
}

func TestClient_DoesNotAllocate(t *testing.T) {
	p, peer := newProxies("10.0.0.0/8"), netip.MustParseAddr("10.0.0.1")
	xff, forwarded := []string{"198.51.100.9, 2001:db8::1, 10.0.0.2"}, []string{`for=198.51.100.9, for="[2001:db8::1]:80", for=10.0.0.2`}
	for name, f := range map[string]func() netip.Addr{
		"X-Forwarded-For": func() netip.Addr { return p.clientOfXForwardedFor(peer, xff) },
		"Forwarded":       func() netip.Addr { return p.clientOfForwarded(peer, forwarded) },
	} {
		if n := testing.AllocsPerRun(100, func() { f() }); n > 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}

// The address is that of the peer, or in the header, and it is not trusted unless all entries before it are.
func FuzzClient(f *testing.F) {
	for _, seed := range []string{"192.0.2.1, 10.0.0.1", `for="[2001:db8::1]:80";proto=http, for=_x`, `for="a\",b", for=unknown`, "[::1", "::ffff:10.0.0.1%x", ",,\n,"} {
		f.Add(seed)
	}
	p := newProxies("10.0.0.0/8")
	f.Fuzz(func(t *testing.T, text string) {
		lines, peer := strings.Split(text, "\n"), netip.MustParseAddr("10.0.0.1")
		for name, got := range map[string]netip.Addr{"X-Forwarded-For": p.clientOfXForwardedFor(peer, lines), "Forwarded": p.clientOfForwarded(peer, lines)} {
			if !got.IsValid() || got.Zone() != "" || got.Is4In6() {
				t.Errorf("%s %q: address %s", name, lines, got)
			}
		}
		for _, header := range [][]string{append(lines, "192.0.2.1"), append(lines, "192.0.2.1, 10.0.0.1")} {
			if got := p.clientOfXForwardedFor(peer, header); got.String() != "192.0.2.1" {
				t.Errorf("X-Forwarded-For %q: %s", header, got)
			}
		}
	})
}
