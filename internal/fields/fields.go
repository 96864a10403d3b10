// Package fields decodes binary fields from a byte slice.
package fields

import "encoding/binary"

// Reader decodes fields from Rest. At a field that is incomplete or malformed, it sets Failed. All later fields are zero.
type Reader struct {
	Rest   []byte
	Failed bool
}

// Bytes returns the next n bytes. They are a part of Rest.
func (r *Reader) Bytes(n uint64) []byte {
	if r.Failed || n > uint64(len(r.Rest)) {
		r.Failed = true
		return nil
	}
	b := r.Rest[:n:n]
	r.Rest = r.Rest[n:]
	return b
}

// Byte decodes a byte.
func (r *Reader) Byte() byte {
	if b := r.Bytes(1); !r.Failed {
		return b[0]
	}
	return 0
}

// Fixed decodes a little-endian number of 8 bytes.
func (r *Reader) Fixed() uint64 {
	if b := r.Bytes(8); !r.Failed {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Number decodes a uvarint. If it is greater than most, the field is malformed.
func (r *Reader) Number(most uint64) uint64 {
	n, size := binary.Uvarint(r.Rest)
	if r.Failed || size <= 0 || n > most {
		r.Failed = true
		return 0
	}
	r.Rest = r.Rest[size:]
	return n
}
