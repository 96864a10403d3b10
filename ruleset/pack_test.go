package ruleset

import (
	"bytes"
	"compress/flate"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestUnpack_TooLarge checks that a text above the maximum is refused, also with the hash of the part that is read.
func TestUnpack_TooLarge(t *testing.T) {
	text := strings.Repeat("\x00", MaxText+1)
	if got, err := unpack(pack(text+"more"), &Version{Hash: HashOf(text)}); !errors.Is(err, ErrDamaged) || got != "" {
		t.Errorf("a text above the maximum is unpacked to %d bytes, error %v, want ErrDamaged", len(got), err)
	}
}

// FuzzUnpack compares unpack with a slow reading of the bytes, and checks that unpack refuses texts that are too large or have
// another hash. Each text is unpacked again after pack.
func FuzzUnpack(f *testing.F) {
	for _, text := range []string{"", "a", strings.Repeat("limits: {}\n", 1000)} {
		f.Add(pack(text))
	}
	whole := pack(strings.Repeat("limits: {}\n", 9))
	f.Add(whole[:len(whole)-3])
	f.Add(append(whole, "more"...))
	f.Add([]byte{0xff, 0xff})
	f.Fuzz(func(t *testing.T, packed []byte) {
		text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), MaxText+1))
		v := Version{Number: 7, Hash: HashOf(string(text))}
		valid := err == nil && len(text) <= MaxText
		got, err := unpack(packed, &v)
		if valid && (err != nil || got != string(text)) || !valid && (!errors.Is(err, ErrDamaged) || got != "") {
			t.Errorf("%d bytes are unpacked to %d bytes, error %v; want %d bytes, %t", len(packed), len(got), err, len(text), valid)
		}
		v.Hash = HashOf(string(text) + "x")
		if got, err := unpack(packed, &v); !errors.Is(err, ErrDamaged) || got != "" {
			t.Errorf("a text with another hash is unpacked to %d bytes, error %v", len(got), err)
		}
		v.Hash = HashOf(string(packed)) // as a text
		if got, err := unpack(pack(string(packed)), &v); err != nil || got != string(packed) {
			t.Errorf("%q is packed and unpacked as %q, error %v", packed, got, err)
		}
	})
}
