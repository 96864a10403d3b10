package limiter

import "testing"

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
