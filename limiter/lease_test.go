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

// FuzzParseLeaseID checks that ParseLeaseID accepts exactly the names that AppendLeaseID returns.
func FuzzParseLeaseID(f *testing.F) {
	for _, name := range []string{
		"", ":", "000000000000000a:k", "000000000000000A:k", "0000000000000000:k", "ffffffffffffffff:", "000000000000000g:k", "000000000000000a", "000000000000000ak", "0x0000000000000a:k", "000000000000000a:\x00\r\n:",
	} {
		f.Add([]byte(name), uint64(1))
	}
	f.Fuzz(func(t *testing.T, name []byte, number uint64) {
		if id, key, ok := ParseLeaseID(name); ok && (id == 0 || string(AppendLeaseID(nil, id, key)) != string(name)) {
			t.Errorf("%q is parsed as %d and %q, whose name is %q", name, id, key, AppendLeaseID(nil, id, key))
		}
		made := AppendLeaseID(nil, number, name)
		if id, key, ok := ParseLeaseID(made); ok != (number != 0) || ok && (id != number || string(key) != string(name)) {
			t.Errorf("%q is parsed as %d, %q, %t, want %d and %q", made, id, key, ok, number, name)
		}
	})
}
