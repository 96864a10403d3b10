package limiter

import (
	"strings"
	"testing"
)

// TestLeasedKinds checks the numbers and the names of the kinds with leases: they are stored with keys, and clients see
// the same names with leases and without.
func TestLeasedKinds(t *testing.T) {
	for k := Throttle; k <= Ban; k++ {
		l := k.WithLeases()
		if l != k+16 || !l.Leased() || k.Leased() || l.Base() != k || k.Base() != k || l.WithLeases() != l {
			t.Errorf("kind %d with leases has the number %d and the base %d, want %d and %d", k, l, l.Base(), k+16, k)
		}
		if !l.Known() || l.String() != k.String() || l.Encoding() != k.Encoding() || l.OfRules() != k.OfRules() {
			t.Errorf("kind %d (%v, %s) must have the properties of its base %d (%v, %s)", l, l, l.Encoding(), k, k, k.Encoding())
		}
	}
	for _, k := range []Kind{0, 13, 15, 16, 29, 31, 32, 255} {
		if k.Known() || k.OfRules() || k.String() != "none" || k.Encoding() != "none" {
			t.Errorf("kind %d is known as %v, want none", k, k)
		}
	}
}

// TestLeaseID checks that the name of a lease contains its ID and any key, and that other names are refused.
func TestLeaseID(t *testing.T) {
	for _, key := range []string{"", ":", "a:b", "\x00\r\n"} {
		name := AppendLeaseID(nil, 1<<63+5, []byte(key))
		if id, got, ok := ParseLeaseID(name); id != 1<<63+5 || string(got) != key || !ok {
			t.Errorf("%q is parsed as %d, %q, %t, want the key %q", name, id, got, ok, key)
		}
	}
	for _, name := range []string{"", "k", "0000000000000000:k", "000000000000000g:k", "00000000000000001k", strings.Repeat("1", 17)} {
		if id, key, ok := ParseLeaseID([]byte(name)); ok {
			t.Errorf("%q is parsed as %d, %q, want no lease", name, id, key)
		}
	}
}

// TestRawNames checks that the kinds that are leased have different names, by which they are found.
func TestRawNames(t *testing.T) {
	for _, name := range RawNames() {
		if k := KindOfRaw(name); k.Raw() != name || k.WithLeases().Raw() != "" {
			t.Errorf("the name %q belongs to the kind %v, whose name is %q", name, k, k.Raw())
		}
	}
	for _, name := range []string{"", "leaky", "queue", "ban", "gcra"} {
		if k := KindOfRaw(name); k != 0 {
			t.Errorf("the name %q belongs to the kind %v, want none", name, k)
		}
	}
	if n := len(RawNames()); n != 9 {
		t.Errorf("%d kinds are leased, want 9", n)
	}
}
