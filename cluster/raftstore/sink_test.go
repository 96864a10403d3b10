package raftstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// slowSnapshots is the snapshot store of raft. At the start of each operation, it calls
// slowSnapshots.before with the name of the operation. slowSnapshots.before may block, or return an
// error.
type slowSnapshots struct {
	*raft.FileSnapshotStore
	before func(op string) error
}

func (s *slowSnapshots) Create(v raft.SnapshotVersion, index, term uint64, conf raft.Configuration, confIndex uint64, t raft.Transport) (raft.SnapshotSink, error) {
	if err := s.before("Create"); err != nil {
		return nil, err
	}
	inner, err := s.FileSnapshotStore.Create(v, index, term, conf, confIndex, t)
	return &slowSink{inner, s}, err
}

type slowSink struct {
	raft.SnapshotSink
	store *slowSnapshots
}

func (s *slowSink) Write(b []byte) (int, error) {
	if err := s.store.before("Write"); err != nil {
		return 0, err
	}
	return s.SnapshotSink.Write(b)
}

func (s *slowSink) Close() error {
	return errors.Join(s.store.before("Close"), s.SnapshotSink.Close())
}

func (s *slowSink) Cancel() error {
	return errors.Join(s.store.before("Cancel"), s.SnapshotSink.Cancel())
}

// withSnapshots returns a store with a slowSnapshots whose field before is the given function.
func withSnapshots(t *testing.T, fatal func(error), before func(op string) error) *Store {
	t.Helper()
	s := guardedStore(newFaulty(), fatal)
	s.dir = t.TempDir()
	must(t, makeDir(s.current()))
	inner, err := raft.NewFileSnapshotStoreWithLogger(s.current(), retained, Logger(slog.New(slog.DiscardHandler)))
	must(t, err)
	s.wrapFiles(newFaulty(), newFaulty(), &slowSnapshots{inner, before})
	return s
}

// write writes a snapshot, and then calls end, which closes or cancels the snapshot. write returns all
// errors.
func write(s *Store, content []byte, end func(raft.SnapshotSink) error) error {
	return writeAt(s, 5, content, end)
}

// writeAt is like write, for a snapshot at the given index. Raft names a snapshot by its index
// and the time in milliseconds, so snapshots of the same millisecond need different indexes.
func writeAt(s *Store, index uint64, content []byte, end func(raft.SnapshotSink) error) error {
	_, transport := raft.NewInmemTransport("")
	sink, err := s.Snapshots().Create(1, index, 1, raft.Configuration{}, 1, transport)
	if err != nil {
		return fmt.Errorf("Create: %w", err)
	}
	_, err = sink.Write(content)
	return errors.Join(err, end(sink))
}

// TestSink_Stuck blocks each operation of a snapshot. The watchdog must call Fatal soon after the limit
// of the operation.
func TestSink_Stuck(t *testing.T) {
	const limit = 1600 * time.Millisecond
	for name, waits := range map[string]time.Duration{"Create": createWaits, "Write": 1, "Close": closeWaits, "Cancel": cancelWaits} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			var at time.Duration
			var reported error
			release := make(chan struct{})
			s := withSnapshots(t, func(err error) { reported, at = err, time.Since(begin) }, func(op string) error {
				if op == name {
					<-release
				}
				return nil
			})
			go s.watch(limit)
			done := make(chan error)
			go func() {
				end := raft.SnapshotSink.Close
				if name == "Cancel" {
					end = raft.SnapshotSink.Cancel
				}
				done <- write(s, []byte("content"), end)
			}()
			<-time.After((waits + 1) * limit)
			synctest.Wait()
			if !errors.Is(reported, ErrStuck) || at < waits*limit || at > waits*limit+limit/watchTicks {
				t.Errorf("%s: Fatal is called after %v with %v; want ErrStuck soon after the limit of the operation", name, at, reported)
			}
			close(release)
			if err := <-done; !errors.Is(err, ErrStuck) {
				t.Errorf("%s: the stuck operation returns %v after its late completion; want ErrStuck", name, err)
			}
			if err := s.Close(); !errors.Is(err, ErrStuck) {
				t.Errorf("%s: Close returns %v; want ErrStuck", name, err)
			}
		})
	}
}

// TestSink_SlowIsNotStuck writes snapshots for longer than the limit, in operations that each take less
// than the limit. Fatal must not be called.
func TestSink_SlowIsNotStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := withSnapshots(t, func(err error) { t.Errorf("Fatal is called with %v; want no call", err) }, func(string) error {
			<-time.After(time.Second - time.Millisecond)
			return nil
		})
		go s.watch(time.Second)
		for range 3 {
			must(t, write(s, []byte("content"), raft.SnapshotSink.Close))
			must(t, write(s, nil, raft.SnapshotSink.Cancel))
		}
		close(s.stop)
	})
}

// TestSink_Fails checks that a failed operation stops neither the log nor the next snapshot.
func TestSink_Fails(t *testing.T) {
	for _, name := range []string{"Create", "Write", "Close", "Cancel"} {
		failing := name
		s := withSnapshots(t, func(err error) { t.Errorf("%s: Fatal is called with %v; want no call", name, err) }, func(op string) error {
			if op == failing {
				return errDisk
			}
			return nil
		})
		end := raft.SnapshotSink.Close
		if name == "Cancel" {
			end = raft.SnapshotSink.Cancel
		}
		if err := write(s, []byte("content"), end); !errors.Is(err, errDisk) {
			t.Errorf("%s: writing the snapshot fails with %v; want errDisk", name, err)
		}
		failing = ""
		must(t, s.logs.StoreLog(command(1, 10)))
		must(t, writeAt(s, 6, []byte("content"), raft.SnapshotSink.Close))
	}
}

// TestSink_Gone checks that Create fails if the file created by raft cannot be opened. A wrong
// path simulates that.
func TestSink_Gone(t *testing.T) {
	s := openStore(t, Config{Dir: t.TempDir()})
	s.snaps.file.name += "-elsewhere"
	if err := write(s, nil, raft.SnapshotSink.Close); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Create returns %v; want os.ErrNotExist", err)
	}
	if entries, err := os.ReadDir(inCurrent(s.dir, snapshotsName)); err != nil || len(entries) > 0 {
		t.Errorf("the files %v are left, error %v; want none", entries, err)
	}
	must(t, s.logs.StoreLog(command(1, 10)))
}

// TestSink_Large checks that a large snapshot is synced several times and read back unchanged.
func TestSink_Large(t *testing.T) {
	s := openStore(t, Config{Dir: t.TempDir()})
	_, transport := raft.NewInmemTransport("")
	created, err := s.Snapshots().Create(1, 5, 1, raft.Configuration{}, 1, transport)
	must(t, err)
	var want []byte
	for i := range 3*syncEvery/100000 + 7 {
		want = append(want, bytes.Repeat([]byte{byte(i)}, 100000)...)
	}
	n, err := io.Copy(created, bytes.NewReader(want))
	if err != nil || n != int64(len(want)) || created.(*sink).unsynced >= syncEvery {
		t.Errorf("%d of %d bytes are written, error %v; %d bytes are not synced; want all written, and fewer than syncEvery not synced", n, len(want), err, created.(*sink).unsynced)
	}
	must(t, created.Close())
	must(t, created.Close())
	must(t, created.Cancel())
	if err := created.(*sink).state.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Close of sink.state returns %v; want os.ErrClosed, because the file is closed already", err)
	}
	meta, r, err := s.Snapshots().Open(created.ID())
	must(t, err)
	got, err := io.ReadAll(r)
	if must(t, r.Close()); err != nil || !bytes.Equal(got, want) || meta.Size != n {
		t.Errorf("%d of %d bytes are read, error %v; want all bytes unchanged, and their number as the size in the metadata", len(got), len(want), err)
	}
}
