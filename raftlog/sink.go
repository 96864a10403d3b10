package raftlog

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
)

const (
	stateName = "state.bin" // the name is raft's
	// syncEvery is in bytes. Otherwise all of a snapshot would be made durable at its end, which
	// may rightly take long, and which the log has to wait for.
	syncEvery = 4 << 20
)

// How often raft waits for the disk at most.
const (
	createWaits = 2 // it makes names, and syncs meta.json
	closeWaits  = 4 // it syncs state.bin, meta.json and the directory, and removes an old snapshot
	cancelWaits = 2 // it syncs state.bin, and removes the snapshot
)

// snapshots is the raft.SnapshotStore over raft's own. The watchdog sees whatever writes, since
// raft writes what a leader has sent from the loop that does all else. An error is only
// returned.
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
	state    *os.File // another handle of the file that raft writes the snapshot to
	unsynced int      // bytes
}

// Write appends to the snapshot, and makes what there is of it durable from time to time.
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

// Close completes the snapshot. It does nothing if it has been completed or cancelled.
func (s *sink) Close() error { return s.end(closeWaits, s.SnapshotSink.Close) }

// Cancel removes the snapshot. It does nothing if it has been completed or cancelled.
func (s *sink) Cancel() error { return s.end(cancelWaits, s.SnapshotSink.Cancel) }

// end makes the rest durable first, in an operation that has the limit once. What it returns,
// raft's own sync does too.
func (s *sink) end(waits uint64, op func() error) error {
	_ = s.file.step(1, s.state.Sync)
	_ = s.state.Close()
	return s.file.step(waits, op)
}
