package raftstore

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
)

const (
	stateName = "state.bin" // defined by raft
	// syncEvery is the number of bytes after which a snapshot is synced. Without these syncs, raft would
	// sync the snapshot only once, when it closes the snapshot. That sync would take long, even on a
	// disk that works, and would block the log.
	syncEvery = 4 << 20
)

// The maximum number of times that raft waits for the disk in one operation on a snapshot.
const (
	createWaits = 2 // creates directories and syncs meta.json
	closeWaits  = 4 // syncs state.bin, meta.json and the directory, and removes an old snapshot
	cancelWaits = 2 // syncs state.bin and removes the snapshot
)

// snapshots wraps the snapshot store of raft. The watchdog watches all writes, because raft writes a received
// snapshot in its main loop, and a stuck write would block this loop. Errors are returned without tripping
// the latch.
type snapshots struct {
	raft.SnapshotStore
	file *guarded
}

// Create begins a snapshot.
func (s *snapshots) Create(v raft.SnapshotVersion, index, term uint64, conf raft.Configuration, confIndex uint64, t raft.Transport) (raft.SnapshotSink, error) {
	created := &sink{file: s.file}
	err := s.file.step(createWaits, func() (err error) {
		created.SnapshotSink, err = s.SnapshotStore.Create(v, index, term, conf, confIndex, t)
		if err != nil {
			return err
		}
		created.state, err = os.OpenFile(filepath.Join(s.file.name, created.ID()+unfinished, stateName), os.O_WRONLY, 0)
		if err != nil {
			err = errors.Join(err, created.SnapshotSink.Cancel())
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return created, nil
}

// sink is a snapshot that is being written.
type sink struct {
	raft.SnapshotSink
	file     *guarded
	state    *os.File // second handle of the file that raft writes the snapshot to
	unsynced int      // bytes written since the last sync
}

// Write appends to the snapshot, and syncs it every syncEvery bytes.
func (s *sink) Write(b []byte) (n int, err error) {
	err = s.file.step(1, func() error {
		n, err = s.SnapshotSink.Write(b)
		return err
	})
	if s.unsynced += n; err == nil && s.unsynced >= syncEvery {
		s.unsynced = 0
		err = s.file.step(1, s.state.Sync)
	}
	return n, err
}

// Close completes the snapshot. It does nothing if the snapshot has been completed or canceled.
func (s *sink) Close() error { return s.end(closeWaits, s.SnapshotSink.Close) }

// Cancel removes the snapshot. It does nothing if the snapshot has been completed or canceled.
func (s *sink) Cancel() error { return s.end(cancelWaits, s.SnapshotSink.Cancel) }

// end completes or removes the snapshot by calling op. Before that, it syncs the remaining bytes in
// a separate operation with its own limit. It ignores the error of this sync, since the sync by raft,
// on another file handle, returns the error as well.
func (s *sink) end(waits uint64, op func() error) error {
	_ = s.file.step(1, s.state.Sync)
	_ = s.state.Close()
	return s.file.step(waits, op)
}
