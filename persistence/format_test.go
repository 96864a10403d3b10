package persistence

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// list is a State that yields its records in order.
type list []limiter.Record

func (list) Now() uint64                         { return 1000 }
func (l list) Records() iter.Seq[limiter.Record] { return slices.Values(l) }
func (list) Put(limiter.Record) error            { return nil }
func (list) Reset()                              {}
func (l list) Usage() limiter.Usage              { return limiter.Usage{Keys: int64(len(l))} }

func throttle(key string, expires uint64) limiter.Record {
	return limiter.Record{Kind: limiter.Throttle, Key: []byte(key), Expires: expires}
}

var created = time.Unix(0, 1_700_000_000_123_456_789)

// encode returns a snapshot of src.
func encode(t testing.TB, blockSize int, src State) ([]byte, Info) {
	t.Helper()
	var file bytes.Buffer
	w := writer{dst: &file, blockSize: blockSize, tick: noTick}
	info, err := w.write(Info{Program: "1.2.3", Created: created}, src)
	if err != nil {
		t.Fatal(err)
	}
	return file.Bytes(), info
}

// decode reads a snapshot from a stream. The records are copies.
func decode(src io.Reader) (list, Info, error) {
	r := reader{src: src, file: "dump.thr", tick: noTick}
	var got list
	if r.header() {
		for rec := range r.records() {
			rec.Key, rec.State = bytes.Clone(rec.Key), bytes.Clone(rec.State)
			got = append(got, rec)
		}
	}
	if r.err == nil && !r.done {
		return got, r.info, errors.New("neither an error nor the end")
	}
	return got, r.info, r.err
}

func TestRoundTrip(t *testing.T) {
	f := func(what string, blockSize int, blocks int64, records ...limiter.Record) {
		t.Helper()
		file, wrote := encode(t, blockSize, list(records))
		want := Info{
			Format: 1, Program: "1.2.3", Created: created, Begun: 1000, Ended: 1000,
			Keys: int64(len(records)), Blocks: blocks, Size: int64(len(file)),
		}
		if wrote != want {
			t.Errorf("%s: the info returned by the writer is %+v; want %+v", what, wrote, want)
		}
		for name, src := range map[string]io.Reader{
			"at once": bytes.NewReader(file), "byte by byte": iotest.OneByteReader(bytes.NewReader(file)),
		} {
			got, info, err := decode(src)
			if err != nil || info != want || !reflect.DeepEqual([]limiter.Record(got), records) {
				t.Errorf("%s, %s: got records %v, info %+v, error %v; want records %v, info %+v", what, name, got, info, err, records, want)
			}
		}
	}
	f("nothing", 64, 0)
	f("one", 64, 1, throttle("a", 1))
	f("the empty key and extreme times", 64, 1, throttle("", 0), throttle("k", 1<<64-1))
	f("bytes of all sorts", 64, 1, throttle("\x00\xff\r\n", 7))
	f("several blocks", 40, 2, throttle("a", 1), throttle("b", 2), throttle("c", 3))
	f("a record larger than a block", 64, 3, throttle("a", 1), throttle(strings.Repeat("k", 1000), 2), throttle("b", 3))
	f("a record larger than the buffers that are kept", 64, 3, throttle("a", 1), throttle(strings.Repeat("k", 3<<20), 2), throttle("b", 3))
}

// TestFormat checks the exact bytes of a snapshot, since existing files must stay readable.
func TestFormat(t *testing.T) {
	file, _ := encode(t, 64, list{throttle("key", 0x0102030405060708)})
	want := "\x89THR\r\n\x1a\n" +
		"\x01\x18\x00\x00\x00" + "\x01\x00" + "\x15\xcd\x85\x3d\xfe\x9c\x97\x17"
	if got := string(file[:len(want)]); got != want {
		t.Errorf("the file begins with %q; want %q", got, want)
	}
	record := "\x02\x0d\x00\x00\x00" + "\x01" + "\x08\x07\x06\x05\x04\x03\x02\x01" + "\x03key"
	if !strings.Contains(string(file), record) {
		t.Errorf("the file is %q; want %q in it", file, record)
	}
	trailer := file[len(file)-trailerSize:]
	if want := "\x03\x18\x00\x00\x00" + "\x01\x00\x00\x00\x00\x00\x00\x00" + "\x01\x00\x00\x00\x00\x00\x00\x00"; !strings.HasPrefix(string(trailer), want) {
		t.Errorf("the trailer is %q; want it to begin with %q", trailer, want)
	}
}

// TestGaugeFormat checks the exact bytes of records with and without a gauge.
func TestGaugeFormat(t *testing.T) {
	rec := throttle("key", 0x0102030405060708)
	for gauge, want := range map[byte]string{
		0:   "\x01" + "\x08\x07\x06\x05\x04\x03\x02\x01" + "\x03key",
		200: "\x21\xc8" + "\x08\x07\x06\x05\x04\x03\x02\x01" + "\x03key",
	} {
		rec.Gauge = gauge
		if got := string(appendRecord(nil, &rec)); got != want {
			t.Errorf("a record with gauge %d is encoded as %q; want %q", gauge, got, want)
		}
	}
}

// TestRecord encodes and decodes records with and without the optional fields State and Gauge.
func TestRecord(t *testing.T) {
	for _, rec := range []limiter.Record{
		{Kind: 9, Key: []byte("key"), Expires: 5, State: []byte("state")},
		{Kind: 9, Key: []byte("key"), Expires: 5, State: []byte("state"), Gauge: 255},
		{Kind: limiter.Throttle, Key: []byte{}, Expires: 5, Gauge: 1},
		{Kind: limiter.Ban, Key: []byte("key"), Expires: 5, State: []byte{}},
		{Kind: limiter.Ban, Key: []byte("key"), Expires: 5, State: []byte{}, Gauge: 200},
	} {
		checkRecord(t, rec)
	}
	for k := limiter.SlidingWindow; k.Known(); k++ {
		checkRecord(t, limiter.Record{Kind: k, Key: []byte("key"), Expires: 1 << 60, State: []byte("12345678"), Gauge: byte(k)})
	}
}

func checkRecord(t *testing.T, want limiter.Record) {
	t.Helper()
	b := appendRecord(nil, &want)
	if len(b) > maxRecordSize(&want) {
		t.Errorf("the encoded record has %d bytes; want at most %d", len(b), maxRecordSize(&want))
	}
	got, rest, ok := parseRecord(append(b, "more"...))
	if !ok || !reflect.DeepEqual(got, want) || string(rest) != "more" {
		t.Errorf("parseRecord returns %v, rest %q, %t; want %v, rest \"more\", true", got, rest, ok, want)
	}
	for i := range len(b) {
		if got, _, ok := parseRecord(b[:i]); ok {
			t.Errorf("parseRecord of the first %d bytes of a record returns %v, true; want false", i, got)
		}
	}
}

// forge is a snapshot whose blocks have arbitrary payloads, but valid lengths and checksums.
type forge []byte

func newForge() *forge {
	f := forge(magic)
	return f.block(headerBlock, appendHeader(nil, &Info{Format: format}))
}

func (f *forge) block(t blockType, payload []byte) *forge {
	id := uint32(0)
	if len(*f) > len(magic) {
		id = sumOf(split(*f)[0])
	}
	b := append(appendPlace(nil, int64(len(*f)), id), make([]byte, headSize-placeSize)...)
	*f = append(*f, seal(append(b, payload...), t)[placeSize:]...)
	return f
}

func (f *forge) records(records ...limiter.Record) *forge {
	var payload []byte
	for _, r := range records {
		payload = appendRecord(payload, &r)
	}
	return f.block(recordsBlock, payload)
}

func (f *forge) trailer(keys, blocks int64) []byte {
	return *f.block(trailerBlock, appendTrailer(nil, &Info{Keys: keys, Blocks: blocks}))
}

// TestRefusals checks the errors for invalid files. Most of the files have valid checksums: a
// faulty, later or malicious program may have written them.
func TestRefusals(t *testing.T) {
	f := func(what string, file []byte, kind error, offset int64, problem string) {
		t.Helper()
		_, _, err := decode(bytes.NewReader(file))
		var fe *FileError
		if !errors.As(err, &fe) || !errors.Is(err, kind) || fe.Offset != offset || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: decode returns %v; want %v at byte %d, and the text: %s", what, err, kind, offset, problem)
		}
	}
	first := int64(len(*newForge())) // offset of the first block of records
	a, b := throttle("a", 1), throttle("b", 2)
	payload := func(r ...limiter.Record) (p []byte) {
		for _, r := range r {
			p = appendRecord(p, &r)
		}
		return p
	}

	f("nothing", nil, ErrDamaged, 0, "the file is truncated")
	f("text", []byte("this is not a snapshot"), ErrDamaged, 0, "does not begin")
	f("only the magic", []byte(magic), ErrDamaged, 8, "the file is truncated")
	f("no trailer", *newForge().records(a), ErrDamaged, first+20, "the file is truncated")
	f("a byte after the trailer", append(newForge().trailer(0, 0), 0), ErrDamaged, first+trailerSize, "more bytes follow")
	f("fewer keys", newForge().records(a).trailer(2, 1), ErrDamaged, first+20, "1 keys in 1 blocks, but its trailer states 2 keys in 1 blocks")
	f("fewer blocks", newForge().records(a).trailer(1, 2), ErrDamaged, first+20, "but its trailer states 1 keys in 2 blocks")
	f("short trailer", *newForge().block(trailerBlock, make([]byte, 23)), ErrDamaged, first, "23 bytes instead of 24")
	f("a truncated record", *newForge().block(recordsBlock, payload(a, b)[:21]), ErrDamaged, first+5+11, "overruns its block")
	f("a huge key length", *newForge().block(recordsBlock, append(payload(a)[:9], "\xff\xff\xff\xff\xff\xff\xff\xff\x7f"...)),
		ErrDamaged, first+5, "overruns its block")
	f("an endless key length", *newForge().block(recordsBlock, append(payload(a)[:9], bytes.Repeat([]byte{0xff}, 11)...)),
		ErrDamaged, first+5, "overruns its block")
	f("no kind", newForge().records(a, limiter.Record{Kind: 0}).trailer(2, 1), ErrUnknown, first+5+11, "kind 0")
	f("an unknown kind", newForge().records(a, limiter.Record{Kind: 200}).trailer(2, 1), ErrUnknown, first+5+11, "kind 200")
	f("an unknown block type", newForge().block(77, nil).trailer(0, 0), ErrUnknown, first, "type 77")
	f("two headers", newForge().block(headerBlock, nil).trailer(0, 0), ErrUnknown, first, "type 1")
	future := forge(magic)
	f("a later format", *future.block(headerBlock, []byte{2, 0, 'x'}), ErrUnknown, 8, "the file has format 2, this version of throttled reads format 1")
	headless := forge(magic)
	f("no header", *headless.records(a), ErrDamaged, 8, "not a header")
	short := forge(magic)
	f("short header", *short.block(headerBlock, []byte{1}), ErrDamaged, 8, "not a header")
	long := forge(magic)
	f("long header", *long.block(headerBlock, append(appendHeader(nil, &Info{Format: format}), 0)), ErrDamaged, 8, "not a header")
	f("a block beyond bounds", append(*newForge(), 2, 1, 0, 0, 0x40), ErrDamaged, first, "invalid length of 1073741825 bytes")
}

func TestReader_ReturnsSourceErrors(t *testing.T) {
	file, _ := encode(t, 64, list{throttle("a", 1), throttle("b", 1)})
	broken := errors.New("broken")
	for n := range len(file) + 1 {
		src := io.MultiReader(bytes.NewReader(file[:n]), iotest.ErrReader(broken))
		_, _, err := decode(src)
		var fe *FileError
		if !errors.As(err, &fe) || !errors.Is(err, broken) || fe.Kind != ErrUnreadable || fe.Offset != int64(n) {
			t.Errorf("the source fails at byte %d, and the error is %v; want ErrUnreadable with this offset", n, err)
		}
	}
}

// TestReader_TakesMemoryAsBytesCome reads a small file in which the length of a block is the
// largest valid one. The reader must not allocate that much memory.
func TestReader_TakesMemoryAsBytesCome(t *testing.T) {
	file := append(*newForge(), 2, 0, 0, 0, 0x40)
	file = append(file, make([]byte, 100)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err := decode(bytes.NewReader(file))
	runtime.ReadMemStats(&after)
	if !errors.Is(err, ErrDamaged) {
		t.Errorf("decode returns %v; want ErrDamaged", err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("a file of %d bytes makes the reader allocate %d bytes; want at most 1 MiB", len(file), took)
	}
}

func TestReader_TickEnds(t *testing.T) {
	file, info := encode(t, 16, list{throttle("a", 1), throttle("b", 1), throttle("c", 1)})
	enough := errors.New("enough")
	var ticks []int64
	r := reader{src: bytes.NewReader(file), tick: func(keys, bytes int64) error {
		ticks = append(ticks, keys)
		if bytes > info.Size {
			t.Errorf("tick is called for %d bytes, but the file has %d", bytes, info.Size)
		}
		if keys == 2 {
			return enough
		}
		return nil
	}}
	r.header()
	for range r.records() {
	}
	if r.err != enough || r.done || !slices.Equal(ticks, []int64{1, 2}) {
		t.Errorf("the reader stops with %v after calls of tick with %v keys; want the error of tick, after calls with 1 and 2 keys", r.err, ticks)
	}
}

// failing is a writer whose n-th write fails.
type failing struct {
	n     int
	short bool // writes only part of the data and returns no error
}

var errFull = errors.New("full")

func (f *failing) Write(b []byte) (int, error) {
	f.n--
	switch {
	case f.n > 0:
		return len(b), nil
	case f.short:
		return len(b) / 2, nil
	}
	return 0, errFull
}

func TestWriter_ReturnsErrors(t *testing.T) {
	src := list{throttle("a", 1), throttle("b", 1), throttle("c", 1)}
	const writes = 1 + 1 + 3 + 1
	for n := 1; n <= writes; n++ {
		w := writer{dst: &failing{n: n}, blockSize: 16, tick: noTick}
		if _, err := w.write(Info{}, src); !errors.Is(err, errFull) {
			t.Errorf("write %d fails, and the writer returns %v; want errFull", n, err)
		}
		w = writer{dst: &failing{n: n, short: true}, blockSize: 16, tick: noTick}
		if _, err := w.write(Info{}, src); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("write %d is short, and the writer returns %v; want ErrShortWrite", n, err)
		}
	}
	w := writer{dst: &failing{n: writes + 1}, blockSize: 16, tick: noTick}
	if _, err := w.write(Info{}, src); err != nil {
		t.Errorf("no write fails, but the writer returns %v", err)
	}
	w = writer{dst: io.Discard, blockSize: 16, tick: func(int64, int64) error { return errFull }}
	if _, err := w.write(Info{}, src); err != errFull {
		t.Errorf("tick fails, and the writer returns %v; want errFull", err)
	}
}

// FuzzReader searches for invalid input that the reader accepts. The records of an
// accepted input must not change when they are written and read again. The written bytes may
// differ from the input, since a uvarint has several encodings.
func FuzzReader(f *testing.F) {
	file, _ := encode(f, 16, list{throttle("a", 1), throttle("b", 2), throttle("long key", 3)})
	f.Add(file)
	f.Add(file[:len(file)-1])
	f.Add([]byte(magic))
	f.Add(newForge().records(throttle("a", 1)).trailer(1, 1))
	f.Add([]byte(*newForge().block(77, []byte("?"))))
	f.Fuzz(func(t *testing.T, file []byte) { checkReader(t, file) })
}

// FuzzReader_Payload is like FuzzReader, but only the payloads of three blocks are arbitrary.
// Their types, lengths and checksums are valid.
func FuzzReader_Payload(f *testing.F) {
	r := throttle("key", 5)
	f.Add([]byte{1, 0}, appendRecord(nil, &r), []byte{1})
	f.Add(appendHeader(nil, &Info{Format: format, Program: "x"}), []byte{1, 2, 3}, appendTrailer(nil, &Info{Keys: 1, Blocks: 1}))
	f.Add(appendHeader(nil, &Info{Format: format}), appendRecord(appendRecord(nil, &r), &r), appendTrailer(nil, &Info{Keys: 2, Blocks: 1}))
	f.Fuzz(func(t *testing.T, header, records, trailer []byte) {
		file := forge(magic)
		checkReader(t, *file.block(headerBlock, header).block(recordsBlock, records).block(trailerBlock, trailer))
	})
}

func checkReader(t *testing.T, file []byte) {
	got, info, err := decode(bytes.NewReader(file))
	if err != nil {
		var fe *FileError
		if !errors.As(err, &fe) || fe.Offset < 0 || fe.Offset > int64(len(file)) {
			t.Fatalf("decode returns %v; want a FileError with an offset within the file", err)
		}
		return
	}
	if info.Keys != int64(len(got)) || info.Size != int64(len(file)) {
		t.Fatalf("read %d records from %d bytes, but the info is %+v", len(got), len(file), info)
	}
	var again bytes.Buffer
	w := writer{dst: &again, blockSize: defaultBlock, tick: noTick}
	if _, err := w.write(Info{Program: info.Program, Created: info.Created}, got); err != nil {
		t.Fatal(err)
	}
	same, _, err := decode(&again)
	if err != nil || !reflect.DeepEqual(same, got) {
		t.Fatalf("the records %v, written and read again, are %v, error %v; want the same records, and no error", got, same, err)
	}
}
