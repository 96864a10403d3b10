package raftstore

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

// databases returns database files written by the library: with inline buckets, with
// buckets of separate pages, with branches, with overflow pages, and after deletions.
func databases(t testing.TB) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for name, change := range map[string]func(*Store) error{
		"new":       func(*Store) error { return nil },
		"one entry": func(s *Store) error { return s.Logs().StoreLog(command(1, 10)) },
		"a page":    func(s *Store) error { return s.Logs().StoreLogs(commands(1, 20, 100)) },
		"branches":  func(s *Store) error { return s.Logs().StoreLogs(commands(1, 2000, 20)) },
		"overflow":  func(s *Store) error { return s.Logs().StoreLogs(commands(1, 5, 20_000)) },
		"deleted": func(s *Store) error {
			return errors.Join(s.Logs().StoreLogs(commands(1, 100, 500)), s.Logs().DeleteRange(1, 90), s.Logs().StoreLogs(commands(101, 150, 30)))
		},
		"emptied": func(s *Store) error {
			return errors.Join(s.Logs().StoreLogs(commands(1, 100, 500)), s.Logs().DeleteRange(1, 100))
		},
	} {
		dir := t.TempDir()
		s := openStore(t, Config{Dir: dir})
		must(t, change(s))
		must(t, s.Stable().Set([]byte("LastVoteCand"), []byte("node")))
		must(t, s.Close())
		for _, file := range []string{logName, stableName} {
			data, err := os.ReadFile(inCurrent(dir, file))
			must(t, err)
			files[name+", "+file] = data
		}
	}
	return files
}

func TestVerifyPages(t *testing.T) {
	for name, data := range databases(t) {
		if err := verifyPages(data, nil); err != nil {
			t.Errorf("%s: verifyPages returns %v; want nil", name, err)
		}
	}
}

// TestVerifyPages_LongLife checks that verifyPages accepts a file after each of many
// modifications typical of raft.
func TestVerifyPages_LongLife(t *testing.T) {
	const seed = 182
	random := rand.New(rand.NewPCG(seed, seed))
	dir := t.TempDir()
	s := openStore(t, Config{Dir: dir})
	first, last := uint64(1), uint64(0)
	for step := range 400 {
		var err error
		switch n := uint64(random.IntN(200)); {
		case random.IntN(3) > 0:
			err = s.Logs().StoreLogs(commands(last+1, last+n, random.IntN([]int{10, 100, 3000, 9000}[random.IntN(4)])))
			last += n
		case random.IntN(20) == 0:
			err = s.Logs().DeleteRange(first, last) // the complete log
			first = last + 1
		case random.IntN(2) == 0:
			n = min(n*3, last+1-first)
			err = s.Logs().DeleteRange(first, first+n-1)
			first += n
		default:
			n = min(n, last+1-first)
			err = s.Logs().DeleteRange(last+1-n, last)
			last -= n
		}
		must(t, err)
		must(t, s.Stable().SetUint64([]byte("CurrentTerm"), uint64(step)))
		for _, d := range []database{logDatabase, stableDatabase} {
			if err := verifyFile(inCurrent(dir, d.name), d.value); err != nil {
				t.Fatalf("seed %d, step %d, entries %d to %d: verifyFile of %s returns %v; want nil", seed, step, first, last, d.name, err)
			}
		}
	}
}

// content returns all entries and values of a store, or the first error of opening, checking or reading it.
func content(t testing.TB, dir string) (entries []string, err error) {
	t.Helper()
	s, err := Open(Config{Dir: dir, Fatal: func(error) {}})
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }() // the store was only read
	if err := s.Check(); err != nil {
		return nil, err
	}
	last, err := s.Logs().LastIndex()
	for i := uint64(1); i <= last && err == nil; i++ {
		var l raft.Log
		err = s.Logs().GetLog(i, &l)
		entries = append(entries, string(l.Data))
	}
	for _, key := range []string{"LastVoteCand", "CurrentTerm", "LastVoteTerm"} {
		var value []byte
		if err == nil {
			value, err = s.Stable().Get([]byte(key))
			entries = append(entries, string(value))
		}
	}
	return entries, err
}

// damage writes data to a file, and checks that the directory is either rejected or has
// unchanged content. It restores the file afterwards.
func damage(t *testing.T, what, dir, file string, data []byte) {
	t.Helper()
	want, err := content(t, dir)
	must(t, err)
	before, err := os.ReadFile(inCurrent(dir, file))
	must(t, err)
	must(t, os.WriteFile(inCurrent(dir, file), data, 0o600))
	got, err := content(t, dir)
	if err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrGap) {
		t.Errorf("%s in %s: rejected with %v; want ErrDamaged or ErrGap", what, file, err)
	}
	if err == nil && !slices.Equal(got, want) {
		t.Errorf("%s in %s: accepted with %d values, which differ from the %d original ones", what, file, len(got), len(want))
	}
	must(t, os.WriteFile(inCurrent(dir, file), before, 0o600))
}

// TestDamage_Bits flips single bits: many at the beginning of each page, where the
// structure of the file is, and some elsewhere.
func TestDamage_Bits(t *testing.T) {
	dir := claimed(t, 60)
	page := os.Getpagesize()
	for _, file := range []string{logName, stableName} {
		data, err := os.ReadFile(inCurrent(dir, file))
		must(t, err)
		for i := range data {
			if at := i % page; at < 80 && i%11 == 0 || i%1499 == 0 {
				changed := bytes.Clone(data)
				changed[i] ^= 1 << (i % 8)
				damage(t, "bit", dir, file, changed)
			}
		}
	}
}

func TestDamage_Pages(t *testing.T) {
	dir := claimed(t, 60)
	page := os.Getpagesize()
	for _, file := range []string{logName, stableName} {
		data, err := os.ReadFile(inCurrent(dir, file))
		must(t, err)
		for at := 0; at < len(data); at += page {
			damage(t, "cut before a page", dir, file, data[:at])
			damage(t, "cut within a page", dir, file, data[:at+page/3])
			zeroed := bytes.Clone(data)
			clear(zeroed[at : at+page])
			damage(t, "page of zeros", dir, file, zeroed)
			copied := bytes.Clone(data)
			copy(copied[at:at+page], data[(at+page)%len(data):])
			damage(t, "copy of another page", dir, file, copied)
		}
		damage(t, "text instead of a database", dir, file, []byte("this is not a database\n"))
		damage(t, "longer", dir, file, append(bytes.Clone(data), make([]byte, 100)...))
	}
}

// TestVerifyPages_EveryBit flips one bit in each byte of the meta pages, except in their page headers and in
// the unused rest. Each change must be detected.
func TestVerifyPages_EveryBit(t *testing.T) {
	for name, data := range databases(t) {
		if len(data) > 64<<10 {
			continue
		}
		_, p, err := openPages(data)
		must(t, err)
		for i := 0; i < int(p.size)*2; i++ {
			if i%int(p.size) < pageHead || i%int(p.size) >= metaSize {
				continue
			}
			data[i] ^= 4
			if err := verifyPages(data, nil); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s: byte %d of the meta pages is changed: verifyPages returns %v; want ErrDamaged", name, i, err)
			}
			data[i] ^= 4
		}
	}
}

// stored returns the keys and values in a file of the stable store.
func stored(data []byte) (values []string, err error) {
	err = verifyPages(data, func(key, value []byte) error {
		values = append(values, fmt.Sprintf("%q %q", key, value))
		return checkValue(key, value)
	})
	return values, err
}

// TestVerifyPages_EveryBitOfTheVote flips each bit of the page with the term and the vote. If a
// corrupt key were accepted, the vote would appear never to have been cast.
func TestVerifyPages_EveryBitOfTheVote(t *testing.T) {
	data, err := os.ReadFile(inCurrent(claimed(t, 1), stableName))
	must(t, err)
	want, err := stored(data)
	must(t, err)
	if len(want) != 3 {
		t.Fatalf("the file has the values %q; want 3", want)
	}
	m, p, err := openPages(data)
	must(t, err)
	for at := m.root * p.size; at < (m.root+1)*p.size; at++ {
		for bit := range 8 {
			data[at] ^= 1 << bit
			if got, err := stored(data); err == nil && !slices.Equal(got, want) || err != nil && !errors.Is(err, ErrDamaged) {
				t.Errorf("bit %d of byte %d is flipped: the values are %q, error %v; want ErrDamaged or the same values", bit, at-m.root*p.size, got, err)
			}
			data[at] ^= 1 << bit
		}
	}
}

// smallPages returns a database file with pages of 256 bytes. Of n stored entries, the first third is deleted.
func smallPages(t testing.TB, n uint64) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), logName)
	db, err := raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: &bbolt.Options{PageSize: 256, NoFreelistSync: true}})
	must(t, err)
	must(t, db.Set([]byte("LastVoteCand"), []byte("node")))
	must(t, db.StoreLogs(commands(1, n, 3)))
	must(t, db.DeleteRange(1, n/3))
	must(t, db.Close())
	data, err := os.ReadFile(path)
	must(t, err)
	return data[:len(data)&^255]
}

// seal sets the checksums of the meta pages, so that verifyPages accepts them and checks the rest of the file.
func seal(data []byte) {
	for _, at := range []int{0, 256} {
		if len(data) >= at+metaSize {
			h := fnv.New64a()
			_, _ = h.Write(data[at+pageHead:][:metaSum])
			native.PutUint64(data[at+pageHead+metaSum:], h.Sum64())
		}
	}
}

// TestVerifyPages_Sealed checks that damaged files are rejected although the checksums of their meta
// pages are valid. On some of these files the library would panic or loop forever.
func TestVerifyPages_Sealed(t *testing.T) {
	file := smallPages(t, 30)
	newest := 0
	if native.Uint64(file[256+pageHead+48:]) > native.Uint64(file[pageHead+48:]) {
		newest = 256
	}
	at := func(field int) int { return newest + pageHead + field }
	root := int(native.Uint64(file[at(16):])) * 256
	logs := int(native.Uint64(file[bytes.LastIndex(file[:root+256], []byte("logs"))+4:])) * 256
	for what, change := range map[string]func(b []byte){
		"root outside":                           func(b []byte) { native.PutUint64(b[at(16):], 1<<40) },
		"root is a meta page":                    func(b []byte) { native.PutUint64(b[at(16):], 0) },
		"root is another page":                   func(b []byte) { native.PutUint64(b[at(16):], uint64(logs/256)) },
		"list of free pages":                     func(b []byte) { native.PutUint64(b[at(32):], uint64(root/256)) },
		"list outside":                           func(b []byte) { native.PutUint64(b[at(32):], 1<<63) },
		"more pages than bytes":                  func(b []byte) { native.PutUint64(b[at(40):], 1<<40) },
		"fewer pages":                            func(b []byte) { native.PutUint64(b[at(40):], 3) },
		"another magic":                          func(b []byte) { b[at(0)]++ },
		"another version":                        func(b []byte) { b[at(4)]++ },
		"another size of pages":                  func(b []byte) { native.PutUint32(b[at(8):], 512) },
		"no size of pages":                       func(b []byte) { native.PutUint32(b[at(8):], 0) },
		"a bucket of another name":               func(b []byte) { b[bytes.LastIndex(b[:root+256], []byte("conf"))]++ },
		"a root element without the bucket flag": func(b []byte) { native.PutUint32(b[root+pageHead:], 0) },
		"a child that is page 0":                 func(b []byte) { native.PutUint64(b[logs+pageHead+8:], 0) },
		"a page that is its own child":           func(b []byte) { native.PutUint64(b[logs+pageHead+8:], uint64(logs/256)) },
		"the same child twice":                   func(b []byte) { copy(b[logs+pageHead+8:][:8], b[logs+pageHead+elementSize+8:]) },
		"a branch without elements":              func(b []byte) { native.PutUint16(b[logs+10:], 0) },
		"a leaf without elements": func(b []byte) {
			leaf := int(native.Uint64(b[logs+pageHead+8:])) * 256
			native.PutUint16(b[leaf+10:], 0)
		},
		"a bucket within a page without elements": func(b []byte) {
			native.PutUint16(b[bytes.LastIndex(b[:root+256], []byte("conf"))+4+bucketHead+10:], 0)
		},
		"one element less":               func(b []byte) { b[logs+10]-- },
		"one element more":               func(b []byte) { b[logs+10]++ },
		"elements beyond the page":       func(b []byte) { native.PutUint16(b[logs+10:], 1<<15) },
		"one overflow page more":         func(b []byte) { native.PutUint32(b[logs+12:], 1) },
		"overflow pages beyond the file": func(b []byte) { native.PutUint32(b[logs+12:], 1<<31) },
		"a key beyond the page":          func(b []byte) { native.PutUint32(b[logs+pageHead:], 1<<31) },
		"a key longer than the page":     func(b []byte) { native.PutUint32(b[logs+pageHead+4:], 1<<31) },
		"an unknown page type":           func(b []byte) { native.PutUint16(b[logs+8:], 3) },
		"keys out of order": func(b []byte) {
			keys := b[logs+pageHead+int(native.Uint16(b[logs+10:]))*elementSize:]
			copy(keys[:8], keys[8:16])
		},
	} {
		b := bytes.Clone(file)
		change(b)
		seal(b)
		if err := verifyPages(b, nil); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: verifyPages returns %v; want ErrDamaged", what, err)
		}
	}
	if err := verifyPages(file, nil); err != nil {
		t.Errorf("verifyPages of the unchanged file returns %v; want nil", err)
	}
}

// FuzzVerifyPages searches for input on which verifyPages panics, and for accepted input on
// which the library panics.
func FuzzVerifyPages(f *testing.F) {
	for _, n := range []uint64{0, 1, 2, 9, 30} {
		f.Add(smallPages(f, n))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		data = bytes.Clone(data)
		seal(data)
		err := verifyPages(data, nil)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("verifyPages returns %v; want nil or ErrDamaged", err)
			}
			return
		}
		path := filepath.Join(t.TempDir(), logName)
		must(t, os.WriteFile(path, data, 0o600))
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true, NoSync: true})
		if err != nil {
			return // an error is a valid result
		}
		must(t, db.View(func(tx *bbolt.Tx) error {
			return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
				return b.ForEach(func(_, _ []byte) error { return nil })
			})
		}))
		must(t, db.Close())
	})
}
