package windowlog

import (
	"encoding/binary"
	"slices"
)

const (
	// footerSize is the length of the footer: base, last and sum of 8 bytes, head, used and
	// count of 4.
	footerSize = 3*8 + 3*4
	// maxEntrySize is the most bytes that an entry takes: two numbers.
	maxEntrySize = 2 * binary.MaxVarintLen64
	// flagQuantity in the first number of an entry says that there is a second.
	flagQuantity = 1

	// minSpare and maxSpare are the fewest and the most bytes for entries to come. A charge
	// writes the spare bytes anew, and a rebuild all bytes: a spare of 2 KiB is where the two
	// meet for the largest logs.
	minSpare, maxSpare = 8, 2048
)

// spareFor returns the spare bytes that a log gets that is built for size bytes of entries:
// an eighth.
func spareFor(size int) int { return min(max(size/8, minSpare), maxSpare) }

// An entry is one request in a log.
type entry struct {
	delta    uint64 // nanoseconds since the entry before
	quantity uint64 // at least 1
	end      int    // where the next one begins
}

// entry reads the entry that begins at an offset, and reports whether it is well formed.
func (g *log) entry(at int) (e entry, ok bool) {
	first, n := binary.Uvarint(g.data[at:g.used])
	if n <= 0 {
		return e, false
	}
	e = entry{delta: first >> 1, quantity: 1, end: at + n}
	if first&flagQuantity == 0 {
		return e, true
	}
	second, n := binary.Uvarint(g.data[e.end:g.used])
	e.quantity, e.end = second>>1, e.end+n
	return e, n > 0 && second&1 == 0 && e.quantity > 0
}

// appendEntry appends an entry to b. The delta and the quantity are below 1<<63.
func appendEntry(b []byte, delta, quantity uint64) []byte {
	if quantity == 1 {
		return binary.AppendUvarint(b, delta<<1)
	}
	return binary.AppendUvarint(binary.AppendUvarint(b, delta<<1|flagQuantity), quantity<<1)
}

// readFooter reads the footer of data, and reports whether data is long enough for what it
// says.
func (g *log) readFooter(data []byte) bool {
	size := len(data) - footerSize
	if size < 0 {
		return false
	}
	footer := data[size:]
	g.data = data
	g.base = binary.LittleEndian.Uint64(footer)
	g.last = binary.LittleEndian.Uint64(footer[8:])
	g.sum = binary.LittleEndian.Uint64(footer[16:])
	g.head = int(binary.LittleEndian.Uint32(footer[24:]))
	g.used = int(binary.LittleEndian.Uint32(footer[28:]))
	g.count = int(binary.LittleEndian.Uint32(footer[32:]))
	return 0 <= g.head && g.head <= g.used && g.used <= size
}

// write returns the change that makes the entries of g and one more, which has been
// encoded already, the new Data: its first keep bytes stay, and tail comes behind them, in
// room. Where the entry fits the spare bytes, the length stays as it is.
func (g *log) write(room, added []byte) (keep int, tail []byte) {
	size := len(g.data) - footerSize
	live := g.used + len(added) - g.head
	spare := size - g.used - len(added)
	tail = room[:0]
	keep = g.used
	if spare < 0 || spare > 2*spareFor(live) || live < size/4 {
		tail = append(tail, g.data[g.head:g.used]...)
		keep, spare = 0, spareFor(live)
		g.head, g.used = 0, len(tail)
	}
	g.used += len(added)
	tail = append(tail, added...)
	end := len(tail)
	tail = slices.Grow(tail, spare+footerSize)[:end+spare]
	clear(tail[end:])
	return keep, g.appendFooter(tail)
}

func (g *log) appendFooter(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, g.base)
	b = binary.LittleEndian.AppendUint64(b, g.last)
	b = binary.LittleEndian.AppendUint64(b, g.sum)
	b = binary.LittleEndian.AppendUint32(b, uint32(g.head))
	b = binary.LittleEndian.AppendUint32(b, uint32(g.used))
	return binary.LittleEndian.AppendUint32(b, uint32(g.count))
}
