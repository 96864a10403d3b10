package fields

import (
	"encoding/binary"
	"math"
	"testing"
)

// TestReader decodes one field of each kind, from a complete text and from each part of it.
func TestReader(t *testing.T) {
	text := binary.LittleEndian.AppendUint64([]byte{7}, 1<<40)
	text = append(binary.AppendUvarint(binary.AppendUvarint(text, 300), 3), "abc"...)
	for size := range len(text) + 1 {
		r := Reader{Rest: text[:size]}
		b, fixed, number, name := r.Byte(), r.Fixed(), r.Number(300), string(r.Bytes(r.Number(math.MaxUint64)))
		switch complete := size == len(text); {
		case r.Failed == complete:
			t.Errorf("%d of %d bytes: failed is %t", size, len(text), r.Failed)
		case complete && (b != 7 || fixed != 1<<40 || number != 300 || name != "abc" || len(r.Rest) > 0):
			t.Errorf("got %d, %d, %d, %q and the rest %q; want 7, 2^40, 300, abc and no rest", b, fixed, number, name, r.Rest)
		}
	}
}

// TestReader_Failed checks that malformed numbers fail, and that all later fields are zero.
func TestReader_Failed(t *testing.T) {
	for name, text := range map[string][]byte{
		"above the maximum": {11, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
		"overflow":          {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 1, 1, 1, 1, 1, 1, 1, 1},
	} {
		r := Reader{Rest: text}
		n := r.Number(10)
		if b, fixed, part := r.Byte(), r.Fixed(), r.Bytes(1); !r.Failed || n != 0 || b != 0 || fixed != 0 || part != nil {
			t.Errorf("%s: got %d, %d, %d and %v, failed %t; want zeros and a failure", name, n, b, fixed, part, r.Failed)
		}
	}
}
