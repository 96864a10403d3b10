package wal

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/internal/race"
)

// content returns the content of a file with one record per entry.
func content(entries ...*raft.Log) (b []byte) {
	for _, entry := range entries {
		b = appendRecord(b, entry)
	}
	return b
}

// with returns a machine with the given entries in Base, and with log files of the given contents.
func with(base []*raft.Log, contents ...[]byte) *machine {
	m := newMachine()
	m.base.store(base)
	for i, data := range contents {
		path := filepath.Join("dir", nameOf(uint64(10+i)))
		m.names[path] = &memFile{m: m, path: path, data: data}
	}
	return m
}

// ends returns the offset of the first record, which is 0, and the offset of the end of each record.
func ends(t *testing.T, data []byte) (offsets []int) {
	t.Helper()
	for rest := data; ; {
		offsets = append(offsets, len(data)-len(rest))
		if len(rest) == 0 {
			return offsets
		}
		_, after, err := decodeRecord(rest)
		must(t, err)
		rest = after
	}
}

// TestOpen_Truncated truncates a file at each offset. If the file is the newest, the complete
// records before the cut must be recovered, and a warning must report the incomplete record. If
// the file is not the newest, Open must reject it.
func TestOpen_Truncated(t *testing.T) {
	data := content(commands(1, 4, 1, 30)...)
	offsets := ends(t, data)
	for cut := range data {
		var warning bytes.Buffer
		m := with(nil, data[:cut:cut])
		c := m.config()
		c.Log = slog.New(slog.NewTextHandler(&warning, nil))
		l, err := Open(c)
		must(t, err)
		whole, _ := slices.BinarySearch(offsets, cut+1)
		want := oracle{}
		want.store(commands(1, uint64(max(whole, 1)-1), 1, 30))
		checkLog(t, l, want)
		if clean := slices.Contains(offsets, cut); clean == (warning.Len() > 0) {
			t.Errorf("cut at %d: the warning is %q; want a warning if and only if the cut is inside a record", cut, &warning)
		}
		must(t, l.Close())
		if cut < len(data)-1 {
			refused(t, with(nil, data[:cut:cut], content(command(5, 1, 1))))
		}
	}
	var warning bytes.Buffer
	c := with(nil, data[:offsets[2]+7]).config()
	c.Log = slog.New(slog.NewTextHandler(&warning, nil))
	must(t, openLog(t, c).Close())
	if !strings.Contains(warning.String(), fmt.Sprintf("offset=%d bytes=7", offsets[2])) {
		t.Errorf("the warning is %q; want offset %d and 7 bytes", &warning, offsets[2])
	}
}

// refused checks that Open rejects the files of a machine and changes nothing.
func refused(t *testing.T, m *machine) {
	t.Helper()
	base, names := maps.Clone(m.base), maps.Clone(m.names)
	if _, err := Open(m.config()); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "front-") {
		t.Errorf("Open returns %v; want ErrDamaged and the name of a file", err)
	}
	if !maps.Equal(base, m.base) || !maps.Equal(names, m.names) {
		t.Error("Open changed the files or Base")
	}
}

// TestOpen_Flipped flips each bit of a file with acknowledged entries. Open must reject the file,
// whether or not it is the newest.
func TestOpen_Flipped(t *testing.T) {
	for name, data := range map[string][]byte{
		"short":      content(commands(1, 3, 1, 30)...),
		"long":       content(commands(1, 2, 1, 1100)...),
		"one record": appendRecord(nil, commands(1, 3, 1, 400)...),
		"of zeros":   content(&raft.Log{Index: 1, Data: make([]byte, 1700)}, &raft.Log{Index: 2, Data: make([]byte, 1700)}),
		"nothing":    content(&raft.Log{Index: 1}),
	} {
		t.Run(name, func(t *testing.T) {
			for bit := 0; bit < 8*len(data); bit += race.Factor {
				damaged := bytes.Clone(data)
				damaged[bit/8] ^= 1 << (bit % 8)
				refused(t, with(nil, damaged))
				refused(t, with(nil, damaged, content(command(4, 1, 1))))
			}
		})
	}
}

// TestOpen_SectorsNeverWritten simulates power failures during the last write of a file. For each
// subset of the sectors of this write, it opens a file in which the other sectors of the write are
// zeros. It also opens truncated copies of this file. The acknowledged entries must be recovered.
// The entries of the last write must be recovered only if all of its sectors are written and the file
// is complete.
func TestOpen_SectorsNeverWritten(t *testing.T) {
	acknowledged := commands(1, 3, 1, 200)
	before := appendRecord(content(acknowledged[0]), acknowledged[1:]...)
	for name, last := range map[string][]*raft.Log{
		"one sector":    commands(4, 4, 1, 30),
		"a full sector": commands(4, 4, 1, sector-headerSize-4-fixedSize-1-4),
		"one byte":      commands(4, 4, 1, sector-headerSize-4-fixedSize-4),
		"six sectors":   commands(4, 4, 1, 2700),
		"of zeros":      {{Index: 4, Term: 1, Data: make([]byte, 1700)}},
		"many entries":  commands(4, 20, 1, 150),
	} {
		t.Run(name, func(t *testing.T) {
			record := appendRecord(nil, last...)
			n := len(record) / sector
			for written := range 1 << n {
				torn := bytes.Clone(record)
				for i := range n {
					if written>>i&1 == 0 {
						clear(torn[i*sector : (i+1)*sector])
					}
				}
				want := oracle{}
				want.store(acknowledged)
				if written == 1<<n-1 {
					want.store(last)
				}
				opens(t, slices.Concat(before, torn), want)
				want = oracle{}
				want.store(acknowledged)
				for cut := 1; cut < len(torn); cut += 173 {
					opens(t, slices.Concat(before, torn[:cut]), want)
				}
			}
		})
	}
}

// opens checks that Open accepts a file and that the log then has the entries of want.
func opens(t *testing.T, data []byte, want oracle) {
	t.Helper()
	l, err := Open(with(nil, data).config())
	must(t, err)
	checkLog(t, l, want)
	must(t, l.Close())
}

// TestOpen_AcknowledgedSectors checks that Open rejects a file if its invalid data may be an
// acknowledged record that was damaged.
func TestOpen_AcknowledgedSectors(t *testing.T) {
	without := func(data []byte, sectors ...int) []byte {
		data = bytes.Clone(data)
		for _, i := range sectors {
			clear(data[i*sector : (i+1)*sector])
		}
		return data
	}
	flip := func(data []byte, at int) []byte {
		data = bytes.Clone(data)
		data[at] ^= 1
		return data
	}
	long := content(commands(1, 3, 1, 1100)...) // three records of three sectors
	torn := appendRecord(nil, command(4, 1, 1100))
	for name, data := range map[string][]byte{
		"the header of the first record":         without(long, 0),
		"the second sector of the first record":  without(long, 1),
		"all of the first record":                without(long, 0, 1, 2),
		"the header of a record before the last": without(long, 3),
		"the end of a record before the last":    without(long, 5),
		"a record before an incomplete write":    append(without(long, 6), without(torn, 1)...),
		"a record before a truncated write":      append(without(long, 7), torn[:40]...),
		"a damaged header and a zeroed sector":   flip(without(long, 7), 6*sector+9),
		"a flipped bit and zeros behind":         append(flip(long, 7*sector), make([]byte, sector)...),
		"zeros and text":                         append(append(long, make([]byte, 10)...), "text"...),
	} {
		t.Run(name, func(t *testing.T) { refused(t, with(nil, data)) })
	}
	refused(t, with(nil, without(long, 7), content(command(4, 1, 1)))) // not the newest file
}

func TestOpen_Fits(t *testing.T) {
	record := func(entry *raft.Log) []byte { return appendRecord(nil, entry) }
	for name, tc := range map[string]struct {
		base  []*raft.Log
		files [][]byte
		last  uint64 // entries 1 to last are recovered
	}{
		"no file":                       {commands(1, 5, 1, 9), nil, 5},
		"nothing in Base":               {nil, [][]byte{content(commands(1, 5, 1, 9)...)}, 5},
		"two files":                     {nil, [][]byte{content(commands(1, 5, 1, 9)...), content(commands(6, 9, 1, 9)...)}, 9},
		"all entries in Base":           {commands(1, 9, 1, 9), [][]byte{content(commands(1, 5, 1, 9)...), content(commands(6, 9, 1, 9)...)}, 9},
		"some entries in Base":          {commands(1, 7, 1, 9), [][]byte{content(commands(1, 5, 1, 9)...), content(commands(6, 9, 1, 9)...)}, 9},
		"a file left from before a gap": {commands(1, 20, 1, 9), [][]byte{content(commands(1, 5, 1, 9)...), content(commands(21, 22, 1, 9)...)}, 22},
		"a new file that is empty":      {nil, [][]byte{content(commands(1, 5, 1, 9)...), {}}, 5},
		"zeros at the end":              {nil, [][]byte{append(content(commands(1, 5, 1, 9)...), make([]byte, 100)...)}, 5},
		"a file of zeros":               {commands(1, 3, 1, 9), [][]byte{make([]byte, 4096)}, 3},
		"a torn record with a record in it": {nil, [][]byte{append(content(command(1, 1, 9)),
			record(&raft.Log{Index: 2, Data: slices.Concat(make([]byte, sector-headerSize-4-fixedSize-1), record(command(3, 1, 9)), []byte("the rest is cut"))})[:2*sector]...)}, 1},
	} {
		l, err := Open(with(tc.base, tc.files...).config())
		if err != nil {
			t.Errorf("%s: Open returns %v; want nil", name, err)
			continue
		}
		want := oracle{}
		want.store(commands(1, tc.last, 1, 9))
		checkLog(t, l, want)
		must(t, l.Close())
	}
}

func TestOpen_Refused(t *testing.T) {
	for name, m := range map[string]*machine{
		"an entry is missing between Base and the file": with(commands(1, 4, 1, 9), content(commands(6, 9, 1, 9)...)),
		"the entries in Base are missing":               with(nil, content(commands(6, 9, 1, 9)...)),
		"an entry is missing between files":             with(nil, content(commands(1, 4, 1, 9)...), content(commands(6, 9, 1, 9)...)),
		"an entry is missing in a file":                 with(nil, content(command(1, 1, 9), command(3, 1, 9))),
		"an entry twice":                                with(nil, content(command(1, 1, 9), command(1, 1, 9))),
		"files that overlap":                            with(nil, content(commands(1, 4, 1, 9)...), content(commands(4, 9, 1, 9)...)),
		"files in the wrong order":                      with(nil, content(commands(5, 9, 1, 9)...), content(commands(1, 4, 1, 9)...)),
		"another format":                                with(nil, []byte("fro")),
		"text":                                          with(nil, []byte("hello, world")),
		"zeros before a record":                         with(nil, append(append(content(command(1, 1, 9)), 0), content(command(2, 1, 9))...)),
		"the previous format":                           with(nil, []byte("frontv1\n")),
		"index 0":                                       with(nil, content(command(math.MaxUint64, 1, 9), command(0, 1, 9))),
	} {
		t.Run(name, func(t *testing.T) { refused(t, m) })
	}
}

// TestOpen_OtherFiles checks that other files in the directory are not touched.
func TestOpen_OtherFiles(t *testing.T) {
	dir := t.TempDir()
	others := []string{"front-1.log", "front-000000000000000A.log", "front-0000000000000001.log.old", "front-", "log.db2", "xfront-0000000000000001.log"}
	for _, name := range others {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("not a log"), 0o600))
	}
	l := openLog(t, Config{Dir: dir, Base: openBolt(t, dir, false)})
	must(t, l.StoreLogs(commands(1, 3, 1, 10)))
	must(t, l.Close())
	for _, name := range others {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != "not a log" {
			t.Errorf("%s: the content is %q, the error of ReadFile %v; want \"not a log\"", name, data, err)
		}
	}
}

func TestOpen_NoDirectory(t *testing.T) {
	_, err := Open(Config{Dir: filepath.Join(t.TempDir(), "missing"), Base: baseStore{newMachine()}})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Open returns %v; want os.ErrNotExist", err)
	}
}
