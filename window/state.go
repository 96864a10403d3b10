package window

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/throttledhq/throttled/limiter"
)

const (
	headerSize = 8
	codeShift  = 62                // the upper two bits of the header encode the counter size
	endOfTime  = uint64(1<<63 - 1) // the last time of the clock
)

// stored is the Data of a State, with the values decoded from its header and Expires.
type stored struct {
	data  []byte
	code  uint8  // a counter has 1<<code bytes
	n     int    // number of counters
	width uint64 // of a sub-window
	begin uint64 // start of the newest sub-window, to which the last counter belongs
}

// parse decodes a state, and reports whether it is well formed and has not expired. If the newest
// sub-window begins after now, parse checks that it is aligned to its width. Otherwise the methods
// take and convert check the alignment, with a division that they need anyway.
func (s *stored) parse(old *limiter.State, now uint64) bool {
	size := len(old.Data) - headerSize
	if old.Expires <= now || size <= 0 {
		return false
	}
	header := binary.LittleEndian.Uint64(old.Data)
	s.data, s.code, s.width = old.Data, uint8(header>>codeShift), header&(1<<codeShift-1)
	s.n = size >> s.code
	if s.width == 0 || s.n > MaxParts || size != s.n<<s.code {
		return false
	}
	hi, length := bits.Mul64(s.width, uint64(s.n))
	s.begin = old.Expires - length
	if hi != 0 || length > old.Expires || s.begin > endOfTime || s.count(s.n-1) == 0 {
		return false
	}
	if s.begin < length-s.width {
		// The first counters belong to sub-windows before time 0, so they must be 0.
		for i := range s.n - 1 - int(s.begin/s.width) {
			if s.count(i) != 0 {
				return false
			}
		}
	}
	return s.begin <= now || s.begin%s.width == 0
}

// count returns counter i; 0 is the oldest. It reads the 8 bytes that end with the counter, so the
// counter is the upper part of the number read. These bytes are always within data, because the
// header before the counters has 8 bytes.
func (s *stored) count(i int) uint64 {
	return binary.LittleEndian.Uint64(s.data[(i+1)<<s.code:]) >> unused(s.code)
}

// unused returns the number of bits of a uint64 that a counter does not use.
func unused(code uint8) uint { return (64 - uint(8)<<code) & 63 }

// most returns the largest value of a counter.
func most(code uint8) uint64 { return math.MaxUint64 >> unused(code) }

// sum returns the sum of the counters from i on, saturated at the largest uint64.
func (s *stored) sum(i int) uint64 {
	// Local variables prevent the loop from reloading the fields.
	data, code := s.data, s.code
	size, shift := 1<<code, unused(code)
	sum, overflow := uint64(0), uint64(0)
	for at := (i + 1) << code; at+8 <= len(data); at += size {
		var carry uint64
		sum, carry = bits.Add64(sum, binary.LittleEndian.Uint64(data[at:at+8])>>shift, 0)
		overflow |= carry
	}
	if overflow != 0 {
		return math.MaxUint64
	}
	return sum
}

// blank returns n counters of 8 bytes in the memory of room. All of them are 0.
func blank(n int, room []byte) stored {
	size := headerSize + n<<3
	data := slices.Grow(room[:0], size)[:size]
	clear(data)
	return stored{data: data, code: 3, n: n}
}

// set sets a counter of 8 bytes.
func (s *stored) set(i int, v uint64) {
	binary.LittleEndian.PutUint64(s.data[headerSize+i<<3:], v)
}

// pack encodes counters of 8 bytes as the Data of a State. It uses the smallest counter size that
// holds all counters and is at least the size given by code.
func (s *stored) pack(width uint64, code uint8) []byte {
	data, n := s.data, s.n
	union := uint64(0) // of the bits of all counters
	for i := range n {
		union |= binary.LittleEndian.Uint64(data[headerSize+i<<3:])
	}
	for union > most(code) {
		code++
	}
	for i := range n {
		// This writes 8 bytes even if the counter is smaller. The other bytes belong to counters that
		// have been read already.
		v := binary.LittleEndian.Uint64(data[headerSize+i<<3:])
		binary.LittleEndian.PutUint64(data[headerSize+i<<code:], v)
	}
	binary.LittleEndian.PutUint64(data, uint64(code)<<codeShift|width)
	return data[:headerSize+n<<code]
}

// add returns a + b, saturated at the largest uint64.
func add(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	if carry != 0 {
		return math.MaxUint64
	}
	return sum
}
