package certs

import (
	"errors"
	"math/big"
	"testing"
)

// FuzzParseSerials checks that each parsed number is positive and has the form of SerialOf, and that all errors wrap
// ErrSerials.
func FuzzParseSerials(f *testing.F) {
	for _, text := range []string{"", "1f\n", "serial=0A:1B # n4\n", "# only a comment", "-1", "0", "0x1", "1 2", "\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		serials, err := ParseSerials(text)
		if err != nil {
			if !errors.Is(err, ErrSerials) {
				t.Errorf("error %v, want one that wraps ErrSerials", err)
			}
			return
		}
		for serial := range serials {
			if n, ok := new(big.Int).SetString(serial, 16); !ok || n.Sign() <= 0 || n.Text(16) != serial {
				t.Errorf("%q is not the form of SerialOf", serial)
			}
		}
	})
}
