package buckets

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// madeChanges returns encoded changes of all types, the offset of each change, and the offset of the
// end.
func madeChanges() (changes []byte, begins []int) {
	changes = []byte{changesVersion}
	next := func(b []byte) {
		begins = append(begins, len(changes))
		changes = b
	}
	put := func(rec limiter.Record) record { return appendRecord(nil, &rec) }
	log := put(limiter.Record{Kind: limiter.WindowLog, Key: []byte("log"), Expires: start, Gauge: 77, State: bytes.Repeat([]byte{9}, 300)})
	next(append(changes, changeClear))
	next(appendPut(changes, put(limiter.Record{Kind: limiter.Throttle, Key: []byte("throttle"), Expires: math.MaxUint64, Gauge: 255})))
	next(appendPut(changes, put(limiter.Record{Kind: limiter.LeakyBucket, Key: nil, Expires: 1})))
	next(appendDelete(changes, []byte("gone")))
	next(appendPut(changes, log))
	next(appendTail(changes, log, 200))
	next(appendTail(changes, log, 300))
	return changes, append(begins, len(changes))
}

func TestChanges(t *testing.T) {
	changes, begins := madeChanges()
	long := bytes.Repeat([]byte{9}, 300)
	for i, want := range []change{
		{op: changeClear},
		{op: opPut, rec: limiter.Record{Kind: limiter.Throttle, Key: []byte("throttle"), Expires: math.MaxUint64, Gauge: 255}},
		{op: opPut, rec: limiter.Record{Kind: limiter.LeakyBucket, Key: []byte{}, Expires: 1, State: []byte{}}},
		{op: changeDelete, rec: limiter.Record{Key: []byte("gone")}},
		{op: opPut, rec: limiter.Record{Kind: limiter.WindowLog, Key: []byte("log"), Expires: start, Gauge: 77, State: long}},
		{op: changeTail, from: 200, rec: limiter.Record{Kind: limiter.WindowLog, Key: []byte("log"), Expires: start, Gauge: 77, State: long[:100]}},
		{op: changeTail, from: 300, rec: limiter.Record{Kind: limiter.WindowLog, Key: []byte("log"), Expires: start, Gauge: 77, State: []byte{}}},
	} {
		r := readerOf(changes[begins[i]:])
		got, err := r.change()
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) || len(changes)-len(r.Rest) != begins[i+1] {
			t.Errorf("change %d: got %+v, %v, and %d remaining bytes; want %+v", i, got, err, len(r.Rest), want)
		}
	}
}

// TestChangesHaveNoFlags checks that the flags of a record in an arena are not part of its encoded
// change.
func TestChangesHaveNoFlags(t *testing.T) {
	rec := record(appendRecord(nil, &limiter.Record{Kind: limiter.WindowLog, State: make([]byte, 4)}))
	rec[0] |= flags
	for g, bit := range map[gauge]byte{0: 0, 1: changeGauged} {
		rec.setGauge(g)
		if b := appendPut(nil, rec); b[0] != bit|byte(limiter.WindowLog) {
			t.Errorf("a put with gauge %d starts with %#x; want only the kind, and changeGauged if the gauge is known", g, b[0])
		}
		if b := appendTail(nil, rec, 2); b[0] != changeTail|bit|byte(limiter.WindowLog) {
			t.Errorf("a tail with gauge %d starts with %#x; want only the kind, changeTail, and changeGauged if the gauge is known", g, b[0])
		}
	}
}

// Encoded changes that are truncated within a change are malformed.
func TestChangesCutShort(t *testing.T) {
	changes, begins := madeChanges()
	whole := map[int]bool{0: true}
	for _, at := range begins {
		whole[at] = true
	}
	for n := range len(changes) + 1 {
		err := checkChanges(changes[:n:n])
		if whole[n] != (err == nil) || err != nil && !errors.Is(err, ErrChanges) {
			t.Errorf("the first %d bytes: checkChanges returns %v; want ErrChanges if they end within a change, else nil", n, err)
		}
	}
}

func TestMalformedChanges(t *testing.T) {
	expires := make([]byte, 8)
	join := func(parts ...any) []byte {
		b := []byte{changesVersion}
		for _, p := range parts {
			switch p := p.(type) {
			case int:
				b = append(b, byte(p))
			case uint64:
				b = binary.AppendUvarint(b, p)
			case []byte:
				b = append(b, p...)
			}
		}
		return b
	}
	for what, changes := range map[string][]byte{
		"no version":                {0},
		"a future version":          {changesVersion + 1},
		"an unknown kind":           join(int(limiter.Ban)+1, expires, 0, 0),
		"a tail of unknown kind":    join(changeTail|int(limiter.Ban)+1, expires, 0, 0, 0),
		"a tail without a kind":     join(0x80, expires, 0, 0, 0),
		"a tail of kind Throttle":   join(0x81, expires, 0, 0, 0),
		"a flag of the arena":       join(0x41, 0),
		"a prefix that is too long": join(0x85, expires, 0, 4, 5),
		"a key that is too large":   join(changeDelete, uint64(1<<62)),
		"a size that overflows":     join(changeDelete, bytes.Repeat([]byte{0xff}, 11)),
		"a state that is too large": join(5, expires, 0, uint64(math.MaxUint64)),
		"a tail that is too large":  join(0x85, expires, 0, uint64(1<<32), uint64(1<<32)),
	} {
		table := New(Config{Replicated: true, Shards: 1})
		if err := table.Replay(changes, start); !errors.Is(err, ErrChanges) {
			t.Errorf("%s: Replay returns %v, want ErrChanges", what, err)
		}
		if table.settled.Load() != 0 {
			t.Errorf("%s: the failed Replay has changed the settled log time", what)
		}
	}
}

// Replay of arbitrary bytes either applies all changes or none, and leaves the table consistent.
func FuzzReplay(f *testing.F) {
	changes, _ := madeChanges()
	f.Fuzz(func(t *testing.T, data []byte) {
		clock := newFakeClock()
		table := New(Config{Clock: clock.read, Replicated: true, Shards: 2, MaxMemory: 1})
		if err := table.Replay(changes, start-1); err != nil {
			t.Fatal(err)
		}
		before := contentOf(table)
		err := table.Replay(data, start)
		checkTable(t, table)
		switch {
		case err == nil:
			once := contentOf(table)
			if err := table.Replay(data, start); err != nil {
				t.Fatal(err)
			}
			sameContent(t, "replayed again", contentOf(table), once)
		case !errors.Is(err, ErrChanges):
			t.Fatal(err)
		default:
			sameContent(t, "after an error", contentOf(table), before)
		}
		table.Lead(1)
		clock.advance(time.Second)
		if d := ask(table, "throttle", slow, 1); d.Err != nil && !errors.Is(d.Err, limiter.ErrWrongKind) && !errors.Is(d.Err, limiter.ErrOutOfMemory) {
			t.Fatal(d.Err)
		}
		sweepAll(table)
		checkTable(t, table)
	})
}

// TestChangesWithoutGauge replays changes without gauges. The records must have an unknown gauge, and
// must be encoded without a gauge again.
func TestChangesWithoutGauge(t *testing.T) {
	head := func(what byte) []byte {
		return append(binary.LittleEndian.AppendUint64([]byte{changesVersion, what}, start+1e9), 1, 'k')
	}
	state := bytes.Repeat([]byte{9}, 300)
	changes := append(binary.AppendUvarint(head(byte(limiter.WindowLog)), 300), state...)
	tail := append(binary.AppendUvarint(binary.AppendUvarint(head(changeTail | byte(limiter.WindowLog))[1:], 300), 298), 1, 2)
	table := New(Config{Clock: newFakeClock().read, Replicated: true, Shards: 1})
	if err := table.Replay(append(changes, tail...), start); err != nil {
		t.Fatal(err)
	}
	want := limiter.Record{Kind: limiter.WindowLog, Key: []byte("k"), Expires: start + 1e9, State: append(state[:298], 1, 2)}
	for rec := range table.Records() {
		if fmt.Sprint(rec) != fmt.Sprint(want) {
			t.Errorf("the replayed record is %+v; want %+v", rec, want)
		}
	}
	written := record(appendRecord(nil, &want))
	if got := appendTail(appendPut([]byte{changesVersion}, written), written, 298); !bytes.Equal(got, slices.Concat(changes[:len(changes)-2], []byte{1, 2}, tail)) {
		t.Errorf("the record is encoded again as %x; want the bytes that were replayed", got)
	}
	if err := table.Replay(head(byte(limiter.Throttle)), start); err != nil || table.Usage().Keys != 1 {
		t.Errorf("replay of a throttle record for the same key: %v, %d keys; want no error, 1 key", err, table.Usage().Keys)
	}
}
