package entrylog

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
)

// content is a file with entries.
func content(entries ...*raft.Log) []byte {
	b := []byte(magic)
	for _, entry := range entries {
		b = appendRecord(b, entry)
	}
	return b
}

// with is a machine with files, and with entries behind.
func with(base []*raft.Log, contents ...[]byte) *machine {
	m := newMachine()
	m.base.store(base)
	for i, data := range contents {
		path := filepath.Join("dir", nameOf(uint64(10+i)))
		m.names[path] = &memFile{m: m, path: path, data: data}
	}
	return m
}

// ends are the offsets at which the records of a file end.
func ends(t *testing.T, data []byte) (offsets []int) {
	t.Helper()
	for rest := data[len(magic):]; ; {
		offsets = append(offsets, len(data)-len(rest))
		if len(rest) == 0 {
			return offsets
		}
		_, after, err := decodeRecord(rest)
		must(t, err)
		rest = after
	}
}

// TestOpen_Truncated cuts a file at each offset: the records before the cut are there, if it
// is the newest, and the warning says what is not.
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
			t.Errorf("cut at %d: the warning is %q", cut, &warning)
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
		t.Errorf("the warning is %q; want that of 7 bytes at %d", &warning, offsets[2])
	}
}

// refused checks that Open refuses what a machine has, and changes nothing.
func refused(t *testing.T, m *machine) {
	t.Helper()
	base, names := maps.Clone(m.base), maps.Clone(m.names)
	if _, err := Open(m.config()); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "front-") {
		t.Errorf("Open returns %v; want that a file is damaged", err)
	}
	if !maps.Equal(base, m.base) || !maps.Equal(names, m.names) {
		t.Error("Open has changed something")
	}
}

// TestOpen_Flipped flips each bit of a file whose entries were all acknowledged.
func TestOpen_Flipped(t *testing.T) {
	data := content(commands(1, 3, 1, 30)...)
	for bit := range 8 * len(data) {
		damaged := bytes.Clone(data)
		damaged[bit/8] ^= 1 << (bit % 8)
		refused(t, with(nil, damaged))
		refused(t, with(nil, damaged, content(command(4, 1, 1))))
	}
}

func TestOpen_Fits(t *testing.T) {
	record := func(entry *raft.Log) []byte { return appendRecord(nil, entry) }
	for name, tc := range map[string]struct {
		base  []*raft.Log
		files [][]byte
		last  uint64 // all from 1 on are there
	}{
		"no file":                  {commands(1, 5, 1, 9), nil, 5},
		"nothing behind":           {nil, [][]byte{content(commands(1, 5, 1, 9)...)}, 5},
		"two files":                {nil, [][]byte{content(commands(1, 5, 1, 9)...), content(commands(6, 9, 1, 9)...)}, 9},
		"all is behind":            {commands(1, 9, 1, 9), [][]byte{content(commands(1, 5, 1, 9)...), content(commands(6, 9, 1, 9)...)}, 9},
		"some is behind":           {commands(1, 7, 1, 9), [][]byte{content(commands(1, 5, 1, 9)...), content(commands(6, 9, 1, 9)...)}, 9},
		"a file from before a gap": {commands(1, 20, 1, 9), [][]byte{content(commands(1, 5, 1, 9)...), content(commands(21, 22, 1, 9)...)}, 22},
		"a new file that is empty": {nil, [][]byte{content(commands(1, 5, 1, 9)...), {}}, 5},
		"zeros at the end":         {nil, [][]byte{append(content(commands(1, 5, 1, 9)...), make([]byte, 100)...)}, 5},
		"a file of zeros":          {commands(1, 3, 1, 9), [][]byte{make([]byte, 4096)}, 3},
		"a torn record with a record in it": {nil, [][]byte{append(content(command(1, 1, 9)),
			record(&raft.Log{Index: 2, Data: append(record(command(3, 1, 9)), "the rest is cut"...)})[:100]...)}, 1},
	} {
		l, err := Open(with(tc.base, tc.files...).config())
		if err != nil {
			t.Errorf("%s: %v", name, err)
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
		"an entry is missing after those behind": with(commands(1, 4, 1, 9), content(commands(6, 9, 1, 9)...)),
		"what was behind is gone":                with(nil, content(commands(6, 9, 1, 9)...)),
		"an entry is missing between files":      with(nil, content(commands(1, 4, 1, 9)...), content(commands(6, 9, 1, 9)...)),
		"an entry is missing in a file":          with(nil, content(command(1, 1, 9), command(3, 1, 9))),
		"an entry twice":                         with(nil, content(command(1, 1, 9), command(1, 1, 9))),
		"files that overlap":                     with(nil, content(commands(1, 4, 1, 9)...), content(commands(4, 9, 1, 9)...)),
		"files in the wrong order":               with(nil, content(commands(5, 9, 1, 9)...), content(commands(1, 4, 1, 9)...)),
		"another format":                         with(nil, []byte("frontv2\n")),
		"text":                                   with(nil, []byte("hello, world")),
		"zeros before a record":                  with(nil, append(append(content(command(1, 1, 9)), 0), content(command(2, 1, 9))[8:]...)),
		"index 0":                                with(nil, content(command(math.MaxUint64, 1, 9), command(0, 1, 9))),
	} {
		t.Run(name, func(t *testing.T) { refused(t, m) })
	}
}

// TestOpen_OtherFiles leaves alone what is not a file of the log.
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
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
}

func TestOpen_NoDirectory(t *testing.T) {
	_, err := Open(Config{Dir: filepath.Join(t.TempDir(), "missing"), Base: behind{newMachine()}})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Open returns %v", err)
	}
}
