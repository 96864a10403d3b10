package persistence

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// faulty is a Disk with fault injection. For each operation, it calls the function in its fault
// field, if set, with the number and the name of the operation. The function returns the fault to
// inject. Without a fault, Sync and SyncDir do nothing, since syncs are slow and matter only after
// a power failure.
type faulty struct {
	mu    sync.Mutex
	fault func(n int, op string) fault
	n     int      // operations so far
	ops   []string // name and file of each operation
	hit   bool     // a fault was injected
}

// fault describes a fault to inject. The zero value means no fault.
type fault struct {
	err   error
	short bool // half of the bytes are written
	lost  bool // the write is dropped without an error
	lie   bool // a byte of the data read is changed
}

func (f *faulty) next(op string, path string) fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	f.ops = append(f.ops, op+" "+filepath.Base(path))
	if f.fault == nil {
		return fault{}
	}
	got := f.fault(f.n, op)
	f.hit = f.hit || got.err != nil
	return got
}

// set replaces the fault function.
func (f *faulty) set(fault func(n int, op string) fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

func (f *faulty) Create(path string) (File, error) {
	return f.open("create", path, Disk.Create)
}

func (f *faulty) Open(path string) (File, error) { return f.open("open", path, Disk.Open) }

func (f *faulty) open(op, path string, open func(string) (File, error)) (File, error) {
	if err := f.next(op, path).err; err != nil {
		return nil, err
	}
	file, err := open(path)
	if err != nil {
		return nil, err
	}
	return &faultyFile{file, f, path}, nil
}

func (f *faulty) Rename(from, to string) error {
	if err := f.next("rename", to).err; err != nil {
		return err
	}
	return Disk.Rename(from, to)
}

func (f *faulty) Link(from, to string) error {
	if err := f.next("link", to).err; err != nil {
		return err
	}
	return Disk.Link(from, to)
}

func (f *faulty) Remove(path string) error {
	if err := f.next("remove", path).err; err != nil {
		return err
	}
	return Disk.Remove(path)
}

func (f *faulty) SyncDir(path string) error {
	if err := f.next("syncdir", "").err; err != nil {
		return err
	}
	return nil
}

type faultyFile struct {
	File
	fs   *faulty
	path string
}

func (f *faultyFile) Write(b []byte) (int, error) {
	got := f.fs.next("write", f.path)
	switch {
	case got.lost:
		f.fs.hit = true
		return len(b), nil
	case got.short:
		f.fs.hit = true
		n, err := f.File.Write(b[:len(b)/2])
		return n, errors.Join(err, got.err)
	case got.err != nil:
		return 0, got.err
	}
	return f.File.Write(b)
}

func (f *faultyFile) ReadAt(b []byte, at int64) (int, error) {
	got := f.fs.next("read", f.path)
	if got.err != nil {
		return 0, got.err
	}
	n, err := f.File.ReadAt(b, at)
	if got.lie && n > 0 {
		f.fs.hit = true
		b[n/2] ^= 0x40
	}
	return n, err
}

func (f *faultyFile) Sync() error {
	if err := f.fs.next("sync", f.path).err; err != nil {
		return err
	}
	return nil
}

func (f *faultyFile) Close() error {
	err := f.fs.next("close", f.path).err
	return errors.Join(err, f.File.Close())
}

func (f *faultyFile) Size() (int64, error) {
	if err := f.fs.next("size", f.path).err; err != nil {
		return 0, err
	}
	return f.File.Size()
}

// TestSave_Order checks the order of the steps of a save. The guarantees of the package depend on
// this order.
func TestSave_Order(t *testing.T) {
	f := &faulty{}
	s := loadedStore(t, Config{Dir: t.TempDir(), FS: f}, newMemory(3))
	must(t, s.Save())
	f.ops = nil
	must(t, s.Save())
	got := slices.DeleteFunc(f.ops, func(op string) bool { return strings.HasPrefix(op, "size") })
	got = slices.Compact(got)
	want := []string{
		"create dump.thr.tmp", "write dump.thr.tmp", "sync dump.thr.tmp", "close dump.thr.tmp",
		"open dump.thr.tmp", "read dump.thr.tmp", "close dump.thr.tmp",
		"remove dump.thr.previous.tmp", "link dump.thr.previous.tmp", "rename dump.thr.previous", "remove dump.thr.previous.tmp",
		"rename dump.thr", "syncdir .",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the steps of the save are %q; want %q", got, want)
	}
}

// TestSave_EveryFault runs a save for each kind of fault and each operation of a save at which the
// fault can be injected.
func TestSave_EveryFault(t *testing.T) {
	f := func(what string, fault func(n, failing int, op string) fault) {
		t.Run(what, func(t *testing.T) {
			dir, older, newer := t.TempDir(), newMemory(6), newMemory(11)
			must(t, saveTo(t, dir, nil, older))
			must(t, saveTo(t, dir, nil, older))
			hits := 0
			for failing := 1; ; failing++ {
				fs := &faulty{}
				err := saveFaulty(t, dir, fs, newer, func(n int, op string) faultOf { return fault(n, failing, op) })
				checkAfterFault(t, fmt.Sprintf("operation %d, %s", failing, lastOf(fs.ops, failing)), dir, fs, err, older, newer)
				if fs.hit {
					hits++
				}
				if fs.n < failing {
					break
				}
				must(t, saveTo(t, dir, nil, older))
				sameContentOf(t, filepath.Join(dir, "dump.thr"), older)
			}
			if hits < 2 {
				t.Errorf("faults were injected in only %d saves, want at least 2", hits)
			}
		})
	}
	once := func(got fault) func(int, int, string) fault {
		return func(n, failing int, _ string) fault {
			if n == failing {
				return got
			}
			return fault{}
		}
	}
	f("input/output error", once(fault{err: syscall.EIO}))
	f("no space", once(fault{err: syscall.ENOSPC, short: true}))
	f("short write without an error", once(fault{short: true}))
	f("lost write", once(fault{lost: true}))
	f("different bytes read back", once(fault{lie: true}))
	f("no permission", once(fault{err: fs.ErrPermission})) // if Link fails with this error, a save copies the file instead
	f("all operations from one on fail", func(n, failing int, _ string) fault {
		if n >= failing {
			return fault{err: syscall.EIO}
		}
		return fault{}
	})
	f("without hard links", func(n, failing int, op string) fault {
		if op == "link" {
			return fault{err: syscall.EOPNOTSUPP}
		}
		return once(fault{err: syscall.EIO})(n, failing, op)
	})
}

type faultOf = fault // alias of the type fault for use where a parameter has the same name

func lastOf(ops []string, n int) string {
	if n > len(ops) {
		return "none"
	}
	return ops[n-1]
}

// saveTo opens a store in dir on fs, saves state and closes the store.
func saveTo(t *testing.T, dir string, fs FS, state *memory) error {
	t.Helper()
	s := openFor(t, dir, fs, state)
	defer func() { must(t, s.Close()) }()
	return s.Save()
}

// openFor opens a store that saves state.
func openFor(t *testing.T, dir string, fs FS, state *memory) *Store {
	t.Helper()
	s, err := Open(Config{Dir: dir, Name: "dump.thr", FS: fs})
	must(t, err)
	s.blockSize = 64
	must(t, s.Load(t.Context(), newMemory(0)))
	s.state = state
	return s
}

// saveFaulty is like saveTo, but injects faults during the save. It injects no faults while it
// opens and closes the store.
func saveFaulty(t *testing.T, dir string, fs *faulty, state *memory, fault func(int, string) fault) error {
	t.Helper()
	s := openFor(t, dir, fs, state)
	defer func() { must(t, s.Close()) }()
	fs.n, fs.ops, fs.hit, fs.fault = 0, nil, false, fault
	err := s.Save()
	if st := s.Status(); st.LastFailed != (err != nil) || (st.Saves == 0) != (err != nil) || st.Saving {
		t.Errorf("the save returns %v, but the status does not match: %+v", err, st)
	}
	return err
}

// checkAfterFault checks that the snapshot is complete. It must be the new one if the save
// succeeded or reached the sync of the directory, and the old one otherwise.
func checkAfterFault(t *testing.T, what string, dir string, f *faulty, err error, older, newer *memory) {
	t.Helper()
	want := older
	if err == nil || slices.Contains(f.ops, "syncdir .") {
		want = newer
	}
	if got := loadDir(t, dir); len(got.records) != len(want.records) {
		t.Fatalf("%s: the save returned %v, and then %d records were loaded; want %d", what, err, len(got.records), len(want.records))
	} else {
		sameContent(t, what, got, want)
	}
	if _, err := contentOf(filepath.Join(dir, "dump.thr.previous")); err != nil {
		t.Errorf("%s: the previous snapshot cannot be read: %v", what, err)
	}
	if err != nil && !strings.Contains(err.Error(), filepath.Join(dir, "dump.thr")) {
		t.Errorf("%s: the error does not name the file: %v", what, err)
	}
	if got := names(t, dir); got != "dump.thr dump.thr.previous" { // loadDir has opened a store, which removes temporary files
		t.Errorf("%s: the directory holds %s; want only the current and the previous snapshot", what, got)
	}
}

// TestSave_LeavesNothing checks that a failed save removes its temporary files
// immediately.
func TestSave_LeavesNothing(t *testing.T) {
	for _, op := range []string{"write", "sync", "close", "link", "rename"} {
		f := &faulty{}
		dir := t.TempDir()
		s := loadedStore(t, Config{Dir: dir, FS: f}, newMemory(3))
		must(t, s.Save())
		f.fault = func(_ int, now string) fault {
			if now == op {
				return fault{err: syscall.EIO}
			}
			return fault{}
		}
		if err := s.Save(); !errors.Is(err, syscall.EIO) {
			t.Errorf("with a failing %s, Save returns %v; want EIO", op, err)
		}
		if got := names(t, dir); got != "dump.thr" {
			t.Errorf("with a failing %s, the directory holds %s; want only dump.thr", op, got)
		}
	}
}

// TestSave_WithoutHardLinks checks that the previous snapshot is copied if the file system
// does not support hard links.
func TestSave_WithoutHardLinks(t *testing.T) {
	dir, older, newer := t.TempDir(), newMemory(5), newMemory(7)
	f := &faulty{fault: func(_ int, op string) fault {
		if op == "link" {
			return fault{err: syscall.EPERM}
		}
		return fault{}
	}}
	must(t, saveTo(t, dir, f, older))
	must(t, saveTo(t, dir, f, newer))
	sameContentOf(t, filepath.Join(dir, "dump.thr.previous"), older)
	sameContentOf(t, filepath.Join(dir, "dump.thr"), newer)
	if !slices.Contains(f.ops, "sync dump.thr.previous.tmp") {
		t.Errorf("the copy of the snapshot is not synced; the operations are %q", f.ops)
	}
}

// TestLoad_EveryFault makes each operation of a load fail, with one failure per load. The load
// must either return the error and store no records, or succeed.
func TestLoad_EveryFault(t *testing.T) {
	state := newMemory(11)
	dir := savedDir(t, state)
	for failing := 1; ; failing++ {
		f := &faulty{}
		s, err := Open(Config{Dir: dir, Name: "dump.thr", FS: f})
		must(t, err)
		f.n, f.fault = 0, func(n int, _ string) fault {
			if n == failing {
				return fault{err: syscall.EIO}
			}
			return fault{}
		}
		into := newMemory(0)
		err = s.Load(t.Context(), into)
		must(t, s.Close())
		switch {
		case err == nil:
			sameContent(t, "the loaded state", into, state)
		case !errors.Is(err, syscall.EIO) || len(into.records) > 0 || !s.Loading():
			t.Errorf("operation %d fails: Load returns %v, and %d records remain; want EIO, no records, and Loading true", failing, err, len(into.records))
		}
		if f.n < failing {
			return
		}
	}
}

// TestSave_ReadsBack checks that a save fails if the file read back is intact but differs
// from the file written.
func TestSave_ReadsBack(t *testing.T) {
	dir, older := t.TempDir(), newMemory(5)
	must(t, saveTo(t, dir, nil, older))
	err := saveTo(t, dir, staleFS{Disk, filepath.Join(dir, "dump.thr")}, newMemory(7))
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "it differs from the content that was written") {
		t.Errorf("the file read back differs from the file written: the save returns %v; want ErrDamaged, and this reason", err)
	}
	sameContent(t, "the snapshot", loadDir(t, dir), older)
}

// staleFS opens the file named by its field path instead of the requested file.
type staleFS struct {
	FS
	path string
}

func (f staleFS) Open(string) (File, error) { return f.FS.Open(f.path) }
