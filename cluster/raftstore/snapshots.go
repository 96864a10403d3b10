package raftstore

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/internal/fsutil"
)

const (
	snapshotsName = "snapshots" // defined by raft
	damagedName   = "damaged"
	retained      = 2 // number of snapshots that raft keeps
	unfinished    = ".tmp"
)

// snapshotFile is a snapshot on the disk.
type snapshotFile struct {
	name string
	meta raft.SnapshotMeta
	err  error // the reason why the snapshot is unusable
}

// readSnapshots reads all snapshots and verifies their checksums. Usable snapshots come
// first, in the order in which raft tries them, followed by unusable ones.
func readSnapshots(dir string) ([]snapshotFile, error) {
	entries, err := os.ReadDir(filepath.Join(dir, snapshotsName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the snapshots: %w", err)
	}
	var found []snapshotFile
	for _, e := range entries {
		if e.IsDir() && !strings.HasSuffix(e.Name(), unfinished) {
			meta, err := readSnapshot(filepath.Join(dir, snapshotsName, e.Name()))
			found = append(found, snapshotFile{e.Name(), meta, err})
		}
	}
	slices.SortFunc(found, func(a, b snapshotFile) int {
		if (a.err == nil) != (b.err == nil) {
			return map[bool]int{true: -1, false: 1}[a.err == nil]
		}
		return -cmp.Or(cmp.Compare(a.meta.Term, b.meta.Term), cmp.Compare(a.meta.Index, b.meta.Index), cmp.Compare(a.name, b.name))
	})
	return found, nil
}

// readSnapshot reads a snapshot from raft's file store, and verifies it as raft does.
func readSnapshot(path string) (raft.SnapshotMeta, error) {
	var meta struct {
		raft.SnapshotMeta
		CRC []byte
	}
	data, err := os.ReadFile(filepath.Join(path, "meta.json")) // #nosec G304 -- a file of data-dir
	if err != nil {
		return meta.SnapshotMeta, err
	}
	if err := json.Unmarshal(data, &meta); err != nil {
		return meta.SnapshotMeta, fmt.Errorf("meta.json is %w: %w", ErrDamaged, err)
	}
	if meta.ID != filepath.Base(path) || meta.Version < raft.SnapshotVersionMin || meta.Version > raft.SnapshotVersionMax {
		return meta.SnapshotMeta, fmt.Errorf("meta.json is %w: it belongs to snapshot %q, version %d", ErrDamaged, meta.ID, meta.Version)
	}
	f, err := os.Open(filepath.Join(path, stateName)) // #nosec G304 -- a file of data-dir
	if err != nil {
		return meta.SnapshotMeta, err
	}
	defer func() { _ = f.Close() }() // the file was only read
	sum := crc64.New(crc64.MakeTable(crc64.ECMA))
	if _, err := io.Copy(sum, f); err != nil {
		return meta.SnapshotMeta, err
	}
	if !bytes.Equal(sum.Sum(nil), meta.CRC) {
		return meta.SnapshotMeta, fmt.Errorf("state.bin is %w: checksum does not match", ErrDamaged)
	}
	return meta.SnapshotMeta, nil
}

// removeUnfinished removes snapshots that were incomplete when a process exited.
func (s *Store) removeUnfinished() {
	paths, _ := filepath.Glob(filepath.Join(s.current(), snapshotsName, "*"+unfinished)) // the pattern is valid
	for _, path := range paths {
		if err := os.RemoveAll(path); err != nil {
			s.log.Warn("cannot remove an unfinished snapshot", "error", err)
		}
	}
}

// setDamagedAside moves a snapshot to a directory that raft does not read. It replaces
// the snapshot that was moved there before.
func (s *Store) setDamagedAside(name string) error {
	from, to := filepath.Join(s.current(), snapshotsName), filepath.Join(s.current(), damagedName)
	if err := os.RemoveAll(to); err != nil {
		return fmt.Errorf("set snapshot %s aside: %w", name, err)
	}
	err := os.Mkdir(to, 0o700)
	if err == nil {
		err = os.Rename(filepath.Join(from, name), filepath.Join(to, name))
	}
	if err == nil {
		err = errors.Join(fsutil.Sync(to), fsutil.Sync(from), fsutil.Sync(s.current()))
	}
	if err != nil {
		return fmt.Errorf("set snapshot %s aside: %w", name, err)
	}
	return nil
}
