package wal

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/raft"
)

const (
	namePrefix = "front-"
	nameSuffix = ".log"
)

func nameOf(number uint64) string { return fmt.Sprintf("%s%016x%s", namePrefix, number, nameSuffix) }

// numberOf returns the number in the name of a log file, and false if name is not a name of a log
// file.
func numberOf(name string) (uint64, bool) {
	digits, hasPrefix := strings.CutPrefix(strings.TrimSuffix(name, nameSuffix), namePrefix)
	number, err := strconv.ParseUint(digits, 16, 64)
	return number, hasPrefix && err == nil && name == nameOf(number)
}

// found is the content of the files.
type found struct {
	paths   []string // oldest first
	entries []raft.Log
	torn    func() // logs a warning if an incomplete write was dropped
}

// Read returns the entries that are in the files of a directory, but not in base. It changes
// nothing. No Log may be open in the directory. The error wraps [ErrDamaged], or an error of the
// file system or of base.
func Read(dir string, base raft.LogStore) ([]raft.Log, error) {
	l := &Log{cfg: Config{Dir: dir, Base: base, files: disk{}}}
	if err := l.findBounds(); err != nil {
		return nil, fmt.Errorf("read the log in %s: %w", dir, err)
	}
	all, err := l.readFiles()
	if err != nil {
		return nil, fmt.Errorf("read the log in %s: %w", dir, err)
	}
	return all.entries, nil
}

// readFiles reads all log files in the directory. It changes no file.
func (l *Log) readFiles() (found, error) {
	names, err := l.cfg.files.Names(l.cfg.Dir)
	if err != nil {
		return found{}, err
	}
	var numbers []uint64
	for _, name := range names {
		if number, ok := numberOf(name); ok {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	all := found{torn: func() {}}
	last := l.last
	for i, number := range numbers {
		path := filepath.Join(l.cfg.Dir, nameOf(number))
		if last, err = l.readFile(&all, path, last, i == len(numbers)-1); err != nil {
			return found{}, err
		}
		l.number = number
	}
	return all, nil
}

// readFile reads a file and appends its entries that are not in Base to all.entries. last is the index of the
// newest entry in Base or all.entries; readFile returns the new value of last. An incomplete write is
// accepted only if the file is the newest.
func (l *Log) readFile(all *found, path string, last uint64, newest bool) (uint64, error) {
	data, err := l.cfg.files.ReadFile(path)
	if err != nil {
		return 0, err
	}
	all.paths = append(all.paths, path)
	entries, valid, err := decodeFile(data)
	torn := newest && err != nil && isTorn(data[valid:], err)
	if err != nil && !torn {
		return 0, fmt.Errorf("%s is %w at offset %d: %w", path, ErrDamaged, valid, err)
	}
	if torn {
		all.torn = func() {
			l.cfg.Log.Warn("dropped an incomplete write at the end of a file", "file", path, "offset", valid, "bytes", len(data)-valid)
		}
	}
	for i := range entries {
		switch index := entries[i].Index; {
		case index <= l.last: // skipped, see "Crash recovery" in doc.go
		case index != last+1:
			return 0, fmt.Errorf("%s is %w: it has entry %d instead of entry %d", path, ErrDamaged, index, last+1)
		default:
			all.entries = append(all.entries, entries[i])
			last = index
		}
	}
	return last, nil
}

// decodeFile returns the entries of a file and the number of bytes that are valid, which is
// len(data) if err is nil.
func decodeFile(data []byte) (entries []raft.Log, valid int, err error) {
	for rest := data; len(rest) > 0; {
		valid = len(data) - len(rest)
		var more []raft.Log
		if more, rest, err = decodeRecord(rest); err != nil {
			return entries, valid, err
		}
		for _, entry := range more {
			if n := len(entries); n > 0 && entry.Index != entries[n-1].Index+1 {
				return entries, valid, errOrder
			}
			entries = append(entries, entry)
		}
	}
	return entries, len(data), nil
}

// isTorn reports whether rest, the invalid end of a file, is an incomplete write: the end or some
// sectors of the record were never written. err is the error of decodeFile. No other
// record can follow an incomplete one, since a write begins only after the previous write has
// completed.
func isTorn(rest []byte, err error) bool {
	switch err {
	case errCut:
		return true
	case errHeader: // the size of the record is unknown
		return isZero(rest[:min(sector, len(rest))]) && !hasHeader(rest)
	case errPayload:
		h, _ := decodeHeader(rest) // the header is valid, since the error is about the payload
		return hasHole(rest) && len(rest) == h.recordSize()
	}
	return false
}

// hasHeader reports whether a sector of b begins with a record header.
func hasHeader(b []byte) bool {
	for part := range slices.Chunk(b, sector) {
		if _, err := decodeHeader(part); err == nil {
			return true
		}
	}
	return false
}

// recover moves the entries of the files to Base and removes the files.
func (l *Log) recover(all found) error {
	all.torn()
	for i := range all.entries {
		l.recent.add(&all.entries[i])
	}
	if err := l.moveAll(); err != nil {
		return err
	}
	l.recent = ring{} // releases the memory
	for _, path := range all.paths {
		if err := l.remove(path); err != nil {
			return err
		}
	}
	// Open rejects a file with an incomplete write unless it is the newest. The removal must
	// therefore be durable before a newer file is created.
	return l.syncDir()
}
