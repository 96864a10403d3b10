package raftlog

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
	// logMapping is address space, not memory: until the file is larger, writers never wait
	// for readers to let go of a mapping that has to grow.
	logMapping = 256 << 20
)

// database is one of the two files.
type database struct {
	name    string
	mapping int                           // bytes to map from the start
	value   func(key, value []byte) error // checks what is stored; nil: reading does
}

var (
	logDatabase    = database{name: logName, mapping: logMapping}
	stableDatabase = database{name: stableName, value: checkValue}
)

// open opens a database for writing, and makes it if it is not there. It checks the
// file first, since the database's own way to refuse a page is a panic in a goroutine.
func (d *database) open(dir string, sync bool) (*raftboltdb.BoltStore, error) {
	return d.openWith(dir, raftboltdb.Options{NoSync: !sync, BoltOptions: &bbolt.Options{
		Timeout: lockTimeout,
		// The list of free pages would be written anew by each commit.
		NoFreelistSync: true, FreelistType: bbolt.FreelistMapType,
		NoGrowSync: !sync, InitialMmapSize: d.mapping, NoStatistics: true,
	}})
}

// read opens a database that is there, for reading.
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

// verifyFile checks the pages of a database. A file that is not there or is empty is
// right: a new one.
func verifyFile(path string, value func(key, value []byte) error) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it is only read
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("not a file")
	}
	data, err := syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map it: %w", err)
	}
	err = protect(func() error { return verifyPages(data, value) })
	return errors.Join(err, syscall.Munmap(data))
}
