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
	codeShift  = 62                // the two bits above the width of a sub-window
	endOfTime  = uint64(1<<63 - 1) // the last moment of the clock
)

// stored is the Data of a State, and what its header and Expires say about it.
type stored struct {
	data  []byte
	code  uint8  // a counter has 1<<code bytes
	n     int    // how many counters there are
	width uint64 // of a sub-window
	begin uint64 // of the newest sub-window, the one of the last counter
}

// parse reads a state, and reports whether it counts anything: that it has not expired,
// and is not malformed. It leaves one check to others, which need that division anyway: no
// sub-window may begin where the newest does, unless that is after now.
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
		// The first counters are of sub-windows before the start of the clock.
		for i := range s.n - 1 - int(s.begin/s.width) {
			if s.count(i) != 0 {
				return false
			}
		}
	}
	return s.begin <= now || s.begin%s.width == 0
}

// count returns counter i; 0 is the oldest. It is the upper part of the 8 bytes that end
// with it, which are always there, as the header has as many.
func (s *stored) count(i int) uint64 {
	return binary.LittleEndian.Uint64(s.data[(i+1)<<s.code:]) >> unused(s.code)
}

// unused returns how many bits of 64 a counter does not have.
func unused(code uint8) uint { return (64 - uint(8)<<code) & 63 }

// most returns the most that a counter can count.
func most(code uint8) uint64 { return math.MaxUint64 >> unused(code) }

// sum returns what is counted from counter i on, or the largest number if that is more.
func (s *stored) sum(i int) uint64 {
	// The fields are in variables, so that the loop does not read them again and again.
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

// blank returns n counters of 8 bytes in room, all 0.
func blank(n int, room []byte) stored {
	size := headerSize + n<<3
	data := slices.Grow(room[:0], size)[:size]
	clear(data)
	return stored{data: data, code: 3, n: n}
}

// set changes a counter of 8 bytes.
func (s *stored) set(i int, v uint64) {
	binary.LittleEndian.PutUint64(s.data[headerSize+i<<3:], v)
}

// pack makes the Data of a State of counters of 8 bytes. It gives each the least size that
// holds all of them, and no less than that of code.
func (s *stored) pack(width uint64, code uint8) []byte {
	data, n := s.data, s.n
	every := uint64(0) // every bit that is set anywhere
	for i := range n {
		every |= binary.LittleEndian.Uint64(data[headerSize+i<<3:])
	}
	for every > most(code) {
		code++
	}
	for i := range n {
		// All 8 bytes are written, which reaches no counter that is still to be read.
		v := binary.LittleEndian.Uint64(data[headerSize+i<<3:])
		binary.LittleEndian.PutUint64(data[headerSize+i<<code:], v)
	}
	binary.LittleEndian.PutUint64(data, uint64(code)<<codeShift|width)
	return data[:headerSize+n<<code]
}

// add is a + b, or the largest number if that is more.
func add(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	if carry != 0 {
		return math.MaxUint64
	}
	return sum
}
