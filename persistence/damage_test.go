package persistence

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// damageTest checks that a store rejects corrupt files.
type damageTest struct {
	*testing.T
	store *Store
	into  *memory
}

// newDamageTest returns a damageTest, and the content of a valid snapshot with several blocks.
func newDamageTest(t *testing.T) (*damageTest, []byte) {
	dir := savedDir(t, newMemory(12))
	b, err := os.ReadFile(filepath.Join(dir, "dump.thr"))
	must(t, err)
	s := newStore(t, Config{Dir: dir})
	info, _, err := s.Info()
	if err != nil || info.Blocks < 4 {
		t.Fatalf("Info returns %+v, %v; want at least 4 blocks", info, err)
	}
	return &damageTest{T: t, store: s, into: newMemory(0)}, b
}

// refused checks that a file is rejected with an error that names the file and the
// offset.
func (d *damageTest) refused(what string, file []byte) {
	d.Helper()
	must(d, os.WriteFile(d.store.path, file, 0o600))
	clear(d.into.records)
	err := d.store.Load(context.Background(), d.into)
	var fe *FileError
	if !errors.As(err, &fe) || fe.Kind != ErrDamaged || fe.File != d.store.path || fe.Offset < 0 || fe.Offset > int64(len(file)) {
		d.Errorf("%s: Load returns %v, want a FileError with ErrDamaged, the path of the snapshot and an offset within it", what, err)
	}
	if !strings.Contains(fmt.Sprint(err), "snapshot "+d.store.path+" is damaged at byte ") {
		d.Errorf("%s: the text of the error does not contain the file and the offset: %v", what, err)
	}
	if len(d.into.records) > 0 || !d.store.Loading() {
		d.Errorf("%s: %d records were loaded, or Loading returns false; want no records, and true", what, len(d.into.records))
	}
}

func TestDamage_EveryBit(t *testing.T) {
	d, file := newDamageTest(t)
	for i := range 8 * len(file) {
		file[i/8] ^= 1 << (i % 8)
		d.refused(fmt.Sprintf("bit %d of byte %d", i%8, i/8), file)
		file[i/8] ^= 1 << (i % 8)
	}
	must(t, os.WriteFile(d.store.path, file, 0o600))
	if err := d.store.Load(t.Context(), d.into); err != nil || len(d.into.records) != 12 {
		t.Errorf("Load of the unmodified file returns the error %v; want no error, and 12 records loaded", err)
	}
}

func TestDamage_EveryCut(t *testing.T) {
	d, file := newDamageTest(t)
	for n := range len(file) {
		d.refused(fmt.Sprintf("the first %d bytes", n), file[:n])
		if n > 0 {
			d.refused(fmt.Sprintf("without the first %d bytes", n), file[n:])
		}
	}
}

func TestDamage_EveryByteRemovedOrAdded(t *testing.T) {
	d, file := newDamageTest(t)
	for i := range file {
		d.refused(fmt.Sprintf("without byte %d", i), append(bytes.Clone(file[:i]), file[i+1:]...))
	}
	for i := range len(file) + 1 {
		added := append(append(bytes.Clone(file[:i]), 0), file[i:]...)
		d.refused(fmt.Sprintf("with an extra byte before byte %d", i), added)
	}
}

func TestDamage_Zeroed(t *testing.T) {
	d, file := newDamageTest(t)
	for from := range len(file) {
		for _, n := range []int{8, 64, 512} {
			b := bytes.Clone(file)
			clear(b[from:min(from+n, len(b))])
			if !bytes.Equal(b, file) {
				d.refused(fmt.Sprintf("%d zeros from byte %d", n, from), b)
			}
		}
	}
	d.refused("the file twice", append(bytes.Clone(file), file...))
}

// TestDamage_Blocks removes, repeats and swaps intact blocks. Each resulting file must be rejected.
func TestDamage_Blocks(t *testing.T) {
	d, file := newDamageTest(t)
	blocks := split(file)
	join := func(blocks ...[]byte) []byte { return append([]byte(magic), bytes.Join(blocks, nil)...) }
	if !bytes.Equal(join(blocks...), file) {
		t.Fatal("the concatenated blocks differ from the file")
	}
	for i := range blocks {
		without := append(append([][]byte{}, blocks[:i]...), blocks[i+1:]...)
		d.refused(fmt.Sprintf("without block %d", i), join(without...))
		for j := range blocks {
			twice := append(append([][]byte{}, blocks[:j]...), blocks[i])
			d.refused(fmt.Sprintf("block %d again before block %d", i, j), join(append(twice, blocks[j:]...)...))
			swapped := append([][]byte{}, blocks...)
			swapped[i], swapped[j] = swapped[j], swapped[i]
			if b := join(swapped...); !bytes.Equal(b, file) {
				d.refused(fmt.Sprintf("blocks %d and %d swapped", i, j), b)
			}
		}
	}
}

// split returns the blocks of a file.
func split(file []byte) (blocks [][]byte) {
	for rest := file[len(magic):]; len(rest) > 0; {
		n := frameSize + int(binary.LittleEndian.Uint32(rest[1:]))
		blocks = append(blocks, rest[:n])
		rest = rest[n:]
	}
	return blocks
}

// TestDamage_OtherFile replaces blocks with the blocks at the same positions in a
// different snapshot. Each resulting file must be rejected.
func TestDamage_OtherFile(t *testing.T) {
	d, file := newDamageTest(t)
	fewer, err := os.ReadFile(filepath.Join(savedDir(t, newMemory(11)), "dump.thr"))
	must(t, err)
	blocks, other := split(file), split(fewer)
	for i := 1; i < min(len(blocks), len(other)); i++ {
		mixed := append(append([][]byte{}, blocks[:i]...), other[i:]...)
		d.refused(fmt.Sprintf("blocks from %d on replaced with those of a different file", i), append([]byte(magic), bytes.Join(mixed, nil)...))
		mixed = append(append([][]byte{}, blocks...)[:i], other[i])
		mixed = append(mixed, blocks[i+1:]...)
		d.refused(fmt.Sprintf("block %d replaced with that of a different file", i), append([]byte(magic), bytes.Join(mixed, nil)...))
	}
}
