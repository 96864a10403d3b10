package buckets

import (
	"bytes"
	"math"
	"testing"

	"github.com/throttledhq/throttled/limiter"
)

func TestRecord(t *testing.T) {
	sizes := []int{0, 1, 16, 126, 127, 128, 129, 5000, 1<<14 - 1, 1 << 14, 1<<21 - 1, 1 << 21}
	tats := []uint64{0, 1, start, math.MaxUint64}
	before := []byte("before")
	for _, size := range sizes {
		for _, tat := range tats {
			key := bytes.Repeat([]byte{0xff}, size)
			arena := appendRecord(bytes.Clone(before), limiter.Throttle, tat, key)
			end := len(arena)
			arena = append(arena, 0xff, 0xff, 0xff)
			rec := record(arena[len(before):])
			if rec.kind() != limiter.Throttle || rec.tat() != tat || !bytes.Equal(rec.key(), key) {
				t.Errorf("size %d: read back kind %v, TAT %d and a key of %d bytes", size, rec.kind(), rec.tat(), len(rec.key()))
			}
			if n := end - len(before); rec.size() != n || recordSize(size) != n {
				t.Errorf("size %d: takes %d bytes, size tells %d, recordSize %d", size, n, rec.size(), recordSize(size))
			}
			rec.set(7, 42)
			if rec.kind() != 7 || rec.tat() != 42 || !bytes.Equal(rec.key(), key) || !bytes.HasPrefix(arena, before) {
				t.Errorf("size %d: set changed more than kind and TAT", size)
			}
		}
	}
}

func TestSlot(t *testing.T) {
	for _, tag := range []uint32{0, 1, math.MaxUint32} {
		for _, offset := range []uint32{0, 1, 1 << 31, math.MaxUint32 - 1} {
			sl := newSlot(tag, offset)
			if sl == 0 || sl.tag() != tag || sl.offset() != offset {
				t.Errorf("slot of %#x and %#x reads %#x and %#x", tag, offset, sl.tag(), sl.offset())
			}
		}
	}
}
