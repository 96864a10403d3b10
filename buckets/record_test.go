package buckets

import (
	"bytes"
	"math"
	"testing"

	"github.com/throttledhq/throttled/limiter"
)

func TestRecord(t *testing.T) {
	sizes := []int{0, 1, 16, 126, 127, 128, 129, 5000, 1<<14 - 1, 1 << 14, 1<<21 - 1, 1 << 21}
	for _, size := range sizes {
		for _, expires := range []uint64{0, 1, start, math.MaxUint64} {
			key := bytes.Repeat([]byte{0xff}, size)
			testRecord(t, &limiter.Record{Kind: limiter.Throttle, Key: key, Expires: expires})
			for _, n := range []int{0, 1, 127, 128, 70_000} {
				testRecord(t, &limiter.Record{Kind: 31, Key: key, Expires: expires, State: bytes.Repeat([]byte{0x80}, n)})
			}
		}
	}
}

// testRecord encodes a record between other bytes, reads it, and modifies it in place.
func testRecord(t *testing.T, want *limiter.Record) {
	t.Helper()
	before := []byte("before")
	arena := appendRecord(bytes.Clone(before), want)
	end := len(arena)
	arena = append(arena, 0xff, 0xff, 0xff)
	rec := record(arena[len(before):])
	same := func(what string, got limiter.Record, expires uint64) {
		t.Helper()
		if got.Kind != want.Kind || got.Expires != expires || !bytes.Equal(got.Key, want.Key) || !bytes.Equal(got.State, want.State) {
			t.Errorf("%s: got kind %d, time %d, a key of %d bytes and a state of %d bytes; want kind %d, time %d, a key of %d bytes and a state of %d bytes", what,
				got.Kind, got.Expires, len(got.Key), len(got.State), want.Kind, expires, len(want.Key), len(want.State))
		}
		if n := end - len(before); rec.size() != n || recordSize(want) != n {
			t.Errorf("%s: the record takes %d bytes; size returns %d, recordSize returns %d", what, n, rec.size(), recordSize(want))
		}
	}
	same("read back", rec.whole(), want.Expires)
	rec.setExpires(42)
	same("at another time", rec.whole(), 42)
	if old := rec.swapExpiresLow(7); old != 42 || rec.expires() != 7 {
		t.Errorf("swapExpiresLow returns %d, and the expiry time is then %d; want 42, 7", old, rec.expires())
	}
	if rec.dead() {
		t.Error("the record is dead before kill")
	}
	rec.kill()
	if !rec.dead() {
		t.Error("the record is not dead after kill")
	}
	same("dead", rec.whole(), 7)
	if !bytes.HasPrefix(arena, before) || !bytes.HasSuffix(arena, []byte{0xff, 0xff, 0xff}) {
		t.Error("the bytes around the record were changed")
	}
}

func TestSlot(t *testing.T) {
	for _, tag := range []uint32{0, 1, math.MaxUint32} {
		for _, offset := range []uint32{0, 1, 1 << 31, math.MaxUint32 - 1} {
			sl := newSlot(tag, offset)
			if sl == 0 || sl.tag() != tag || sl.offset() != offset {
				t.Errorf("a slot with tag %#x and offset %#x returns %#x and %#x", tag, offset, sl.tag(), sl.offset())
			}
		}
	}
}
