package windowlog

import (
	"encoding/binary"
	"slices"
)

const (
	// footerSize is the size of the footer: base, last and sum of 8 bytes each, start, end and
	// count of 4 bytes each.
	footerSize = 3*8 + 3*4
	// maxEntrySize is the maximum size of an entry in bytes: two uvarints.
	maxEntrySize = 2 * binary.MaxVarintLen64
	// flagQuantity is set in the first uvarint of an entry if there is a second one.
	flagQuantity = 1

	// minSpare and maxSpare limit the spare bytes for new entries. A charge rewrites the spare
	// bytes, and a rebuild rewrites all bytes: 2 KiB of spare bytes balance the two costs for the
	// largest logs.
	minSpare, maxSpare = 8, 2048
)

// spareFor returns the number of spare bytes of a log that is rebuilt with size bytes of entries:
// an eighth, within minSpare..maxSpare.
func spareFor(size int) int { return min(max(size/8, minSpare), maxSpare) }

// entry is one decoded entry of a log.
type entry struct {
	delta    uint64 // nanoseconds since the previous entry
	quantity uint64 // at least 1
	end      int    // offset of the next entry
}

// entry decodes the entry at an offset, and reports whether it is well formed.
func (g *log) entry(at int) (e entry, ok bool) {
	first, n := binary.Uvarint(g.data[at:g.end])
	if n <= 0 {
		return e, false
	}
	e = entry{delta: first >> 1, quantity: 1, end: at + n}
	if first&flagQuantity == 0 {
		return e, true
	}
	second, n := binary.Uvarint(g.data[e.end:g.end])
	e.quantity, e.end = second>>1, e.end+n
	return e, n > 0 && second&1 == 0 && e.quantity > 0
}

// appendEntry appends an encoded entry to b. The delta and the quantity must be below 1<<63.
func appendEntry(b []byte, delta, quantity uint64) []byte {
	if quantity == 1 {
		return binary.AppendUvarint(b, delta<<1)
	}
	return binary.AppendUvarint(binary.AppendUvarint(b, delta<<1|flagQuantity), quantity<<1)
}

// readFooter decodes the footer of data, and reports whether its offsets are within data.
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
	g.start = int(binary.LittleEndian.Uint32(footer[24:]))
	g.end = int(binary.LittleEndian.Uint32(footer[28:]))
	g.count = int(binary.LittleEndian.Uint32(footer[32:]))
	return 0 <= g.start && g.start <= g.end && g.end <= size
}

// write encodes the entries of g, followed by the bytes of added, which contains an encoded entry or
// is empty. The new Data consists of the first keep bytes of the old Data, followed by tail, which
// uses the memory of room. Unless the log is rebuilt, the length of the Data does not change.
func (g *log) write(room, added []byte) (keep int, tail []byte) {
	size := len(g.data) - footerSize
	live := g.end + len(added) - g.start
	spare := size - g.end - len(added)
	tail = room[:0]
	keep = g.end
	if spare < 0 || spare > 2*spareFor(live) || live < size/4 {
		tail = append(tail, g.data[g.start:g.end]...)
		keep, spare = 0, spareFor(live)
		g.start, g.end = 0, len(tail)
	}
	g.end += len(added)
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
	b = binary.LittleEndian.AppendUint32(b, uint32(g.start))
	b = binary.LittleEndian.AppendUint32(b, uint32(g.end))
	return binary.LittleEndian.AppendUint32(b, uint32(g.count))
}
