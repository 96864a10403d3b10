package persistence

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// readAll reads a stream. The records are copies.
func readAll(src io.Reader) (list, Info, error) {
	var got list
	info, err := Read(src, func(r limiter.Record) error {
		r.Key, r.State = bytes.Clone(r.Key), bytes.Clone(r.State)
		got = append(got, r)
		return nil
	})
	return got, info, err
}

// stream returns the records of src as a stream with a fixed Program and Created, and the Info of
// the stream.
func stream(t testing.TB, src State) ([]byte, Info) {
	t.Helper()
	var b bytes.Buffer
	info, err := Write(&b, Info{Program: "1.2.3", Created: created}, src, nil)
	must(t, err)
	return b.Bytes(), info
}

func TestStream_RoundTrip(t *testing.T) {
	for what, records := range map[string]list{
		"nothing":          nil,
		"one":              {throttle("a", 1)},
		"of several kinds": {throttle("a", 1), {Kind: limiter.Throttle + 1, Key: []byte("b"), Expires: 2, State: []byte("state")}},
		"several blocks":   {throttle("a", 1), throttle(strings.Repeat("k", defaultBlock), 2), throttle("b", 3)},
	} {
		b, wrote := stream(t, records)
		for how, src := range map[string]io.Reader{
			"at once": bytes.NewReader(b), "byte by byte": iotest.OneByteReader(bytes.NewReader(b)),
			"EOF with the data": iotest.DataErrReader(bytes.NewReader(b)),
		} {
			got, info, err := readAll(src)
			if err != nil || info != wrote || !reflect.DeepEqual(got, records) {
				t.Errorf("%s, %s: got records %v, info %+v, error %v; want records %v, info %+v", what, how, got, info, err, records, wrote)
			}
		}
		if want := (Info{Format: format, Program: "1.2.3", Created: created, Begun: 1000, Ended: 1000,
			Keys: int64(len(records)), Blocks: wrote.Blocks, Size: int64(len(b))}); wrote != want {
			t.Errorf("%s: the info returned by Write is %+v; want %+v", what, wrote, want)
		}
	}
}

// TestStream_IsAFile checks that a stream is identical to the file that a Store saves.
func TestStream_IsAFile(t *testing.T) {
	state := newMemory(10_000)
	dir := t.TempDir()
	s := loadedStore(t, Config{Dir: dir, Version: "1.2.3"}, newMemory(0))
	s.state = state
	must(t, s.Save())
	saved, err := os.ReadFile(filepath.Join(dir, "dump.thr"))
	must(t, err)
	snap, err := OpenSnapshot(filepath.Join(dir, "dump.thr"))
	must(t, err)
	var b bytes.Buffer
	info, err := Write(&b, Info{Program: "1.2.3", Created: snap.Info().Created}, state, nil)
	must(t, err)
	if !bytes.Equal(b.Bytes(), saved) || info != snap.Info() {
		t.Errorf("the stream has %d bytes and info %+v; the file has %d bytes and info %+v; want equal bytes and infos", b.Len(), info, len(saved), snap.Info())
	}
	must(t, snap.Close())
}

func TestWrite_SetsCreated(t *testing.T) {
	before := time.Now()
	info, err := Write(io.Discard, Info{Program: "1.2.3", Keys: 77, Format: 12}, list{}, nil)
	if err != nil || info.Created.Before(before.Round(0)) || info.Created.After(time.Now()) || info.Keys != 0 || info.Format != format {
		t.Errorf("Write returns %+v, %v; want the current time, no keys, and the current format", info, err)
	}
}

// TestRead_EveryCutAndBit truncates a stream at every byte and flips every bit. Read must
// detect each change and must not visit a corrupt record.
func TestRead_EveryCutAndBit(t *testing.T) {
	records := list{throttle("alpha", 1), throttle("beta", 2), throttle("gamma", 3)}
	b, _ := stream(t, records)
	check := func(what string, b []byte) {
		t.Helper()
		got, _, err := readAll(bytes.NewReader(b))
		var fileError *FileError
		if !errors.As(err, &fileError) || fileError.File != streamName {
			t.Errorf("%s: Read returns %v; want a FileError with streamName as the file", what, err)
		}
		if len(got) != 0 && !reflect.DeepEqual(got, records) {
			t.Errorf("%s: Read visits %v; want no record or all", what, got)
		}
	}
	for i := range b {
		check("cut", b[:i])
		for bit := range 8 {
			changed := bytes.Clone(b)
			changed[i] ^= 1 << bit
			check("bit", changed)
		}
	}
	check("longer", append(bytes.Clone(b), 0))
}

// TestRead_ImpossibleTrailer checks that Read rejects trailers with a valid checksum and
// impossible values.
func TestRead_ImpossibleTrailer(t *testing.T) {
	for ended, want := range map[uint64]error{7: nil, 6: ErrDamaged, 1 << 63: ErrDamaged} {
		f := forge(magic)
		f.block(headerBlock, appendHeader(nil, &Info{Format: format, Begun: 7}))
		f.block(trailerBlock, appendTrailer(nil, &Info{Ended: ended}))
		if _, _, err := readAll(bytes.NewReader(f)); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("the trailer has %d as the limiter time at the end: Read returns %v; want %v", ended, err, want)
		}
	}
}

func TestStream_ReturnsErrors(t *testing.T) {
	bad := errors.New("bad")
	b, _ := stream(t, list{throttle("a", 1), throttle("b", 2)})
	visits := 0
	_, err := Read(bytes.NewReader(b), func(limiter.Record) error { visits++; return bad })
	if err != bad || visits != 1 {
		t.Errorf("visit fails, and Read returns %v after %d visits; want the error of visit, after 1", err, visits)
	}
	_, _, err = readAll(io.MultiReader(bytes.NewReader(b[:40]), iotest.ErrReader(bad)))
	if !errors.Is(err, bad) || !errors.Is(err, ErrUnreadable) {
		t.Errorf("the source fails, and Read returns %v; want the error of the source, and ErrUnreadable", err)
	}
	const writes = 1 + 1 + 1 + 1
	for n := 1; n <= writes; n++ {
		if _, err := Write(&failing{n: n}, Info{}, list{throttle("a", 1)}, nil); !errors.Is(err, errFull) {
			t.Errorf("write %d fails, and Write returns %v; want errFull", n, err)
		}
	}
	if _, err := Write(&failing{n: writes + 1}, Info{}, list{throttle("a", 1)}, nil); err != nil {
		t.Errorf("no write fails, but Write returns %v", err)
	}
}

// TestWrite_Rests checks that Write pauses for two thirds of the time until hurry is
// closed.
func TestWrite_Rests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := func(yield func(limiter.Record) bool) {
			for i := range 40_000 {
				if i%1000 == 0 {
					<-time.After(time.Millisecond)
				}
				if !yield(throttle(fmt.Sprint("key ", i), 1)) {
					return
				}
			}
		}
		hurry := make(chan struct{})
		took := func() time.Duration {
			begin := time.Now()
			if _, err := Write(io.Discard, Info{}, slow{work}, hurry); err != nil {
				t.Error(err)
			}
			return time.Since(begin)
		}
		if got := took(); got < 100*time.Millisecond || got > 120*time.Millisecond {
			t.Errorf("40 ms of work took %v; want 100 to 120 ms", got)
		}
		close(hurry)
		if got := took(); got != 40*time.Millisecond {
			t.Errorf("40 ms of work after hurry was closed took %v; want 40 ms", got)
		}
	})
}

// slow is a Source whose records come from the function in its field records, which may yield them slowly.
type slow struct{ records iter.Seq[limiter.Record] }

func (slow) Now() uint64                         { return 1000 }
func (s slow) Records() iter.Seq[limiter.Record] { return s.records }
