package raftstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

const (
	logName    = "raft-log.db"
	stableName = "raft-stable.db"

	lockTimeout = time.Second
	// logMapping is the initial size of the memory map of the log, in bytes. It reserves
	// address space, not memory. A writer that enlarges the map must wait until readers have
	// released the map. While the file is smaller than logMapping, the map need not be enlarged.
	logMapping = 256 << 20
)

// database describes one of the two database files of a store.
type database struct {
	name    string
	mapping int                           // initial size of the memory map, in bytes
	value   func(key, value []byte) error // checks each value on open; if nil, values are checked only when they are read
}

var (
	logDatabase    = database{name: logName, mapping: logMapping}
	stableDatabase = database{name: stableName, value: checkValue}
)

// open opens a database for writing, and creates it if it does not exist. It verifies the
// file first, since an invalid page can cause a panic in a goroutine of bbolt. Such a panic cannot be
// recovered and would crash the process.
func (d *database) open(dir string, sync bool) (*raftboltdb.BoltStore, error) {
	return d.openWith(dir, raftboltdb.Options{NoSync: !sync, BoltOptions: &bbolt.Options{
		Timeout: lockTimeout,
		// Without NoFreelistSync, each commit would write the complete freelist.
		NoFreelistSync: true, FreelistType: bbolt.FreelistMapType,
		NoGrowSync: !sync, InitialMmapSize: d.mapping, NoStatistics: true,
	}})
}

// read opens an existing database for reading.
func (d *database) read(dir string) (*raftboltdb.BoltStore, error) {
	return d.openWith(dir, raftboltdb.Options{BoltOptions: &bbolt.Options{Timeout: lockTimeout, ReadOnly: true}})
}

func (d *database) openWith(dir string, o raftboltdb.Options) (db *raftboltdb.BoltStore, err error) {
	o.Path = filepath.Join(dir, d.name)
	if err := verifyFile(o.Path, d.value); err != nil {
		return nil, fmt.Errorf("open %s: %w", o.Path, err)
	}
	err = protect(func() error {
		db, err = raftboltdb.New(o)
		return err
	})
	if errors.Is(err, bolterrors.ErrTimeout) {
		err = ErrLocked
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", o.Path, err)
	}
	return db, nil
}

// verifyFile verifies the pages of a database. A missing or empty file is valid: it becomes
// a new database.
func verifyFile(path string, value func(key, value []byte) error) error {
	f, err := os.Open(path) // #nosec G304 -- a file of data-dir
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // the file was only read
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("not a regular file")
	}
	data, err := syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map the file: %w", err)
	}
	err = protect(func() error { return verifyPages(data, value) })
	return errors.Join(err, syscall.Munmap(data))
}
