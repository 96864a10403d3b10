package limiter

import "testing"

// TestKindNames fixes what clients see: TYPE and OBJECT ENCODING are part of the protocol.
func TestKindNames(t *testing.T) {
	f := func(k Kind, name, encoding string) {
		t.Helper()
		if k.String() != name || k.Encoding() != encoding {
			t.Errorf("kind %d is %q, %q; want %q, %q", k, k.String(), k.Encoding(), name, encoding)
		}
	}
	f(0, "none", "none")
	f(Throttle, "throttle", "gcra")
	f(200, "none", "none")
}

// TestKindValues fixes the numbers that are stored with keys.
func TestKindValues(t *testing.T) {
	if Throttle != 1 {
		t.Errorf("Throttle is %d; stored state needs it to stay 1", Throttle)
	}
}
