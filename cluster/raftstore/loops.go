package raftstore

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	installLimit  = 3
	installWindow = time.Minute
	transferLimit = 2 * time.Second
)

// InstallGuard detects that a follower receives the same snapshot repeatedly. This happens
// if the newest entries of the follower's log conflict with the leader's log. The installation of
// the snapshot does not remove these entries, so the leader sends the snapshot again. The remedy
// is to call SetAside and join as a new node. The zero value is ready to use. The methods
// may be called concurrently.
type InstallGuard struct {
	mu       sync.Mutex
	installs []install
}

type install struct {
	index uint64
	at    time.Time
}

// Note records the installation of a snapshot that ends at the given index. The error wraps
// [ErrInstallLoop] if snapshots with this index were installed at least three times within 60 s.
func (g *InstallGuard) Note(index uint64, now time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.installs = slices.DeleteFunc(g.installs, func(i install) bool { return now.Sub(i.at) > installWindow })
	g.installs = append(g.installs, install{index, now})
	same := 0
	for _, i := range g.installs {
		if i.index == index {
			same++
		}
	}
	if same >= installLimit {
		return fmt.Errorf("the snapshot that ends at entry %d was installed %d times in %v: %w", index, same, installWindow, ErrInstallLoop)
	}
	return nil
}

// TransferGuard detects that a leader rejects all entries because a leadership transfer was
// interrupted. The library does not recover from this state. The remedy is to restart
// the process. The zero value is ready to use. Its methods may be called concurrently.
type TransferGuard struct {
	mu    sync.Mutex
	since time.Time // time of the first of the latest consecutive rejections; zero if the last entry was accepted
}

// Note records the result of adding an entry to the log. The error wraps
// [ErrStuckTransfer] if, for more than 2 s, all entries were rejected because of a
// leadership transfer.
func (g *TransferGuard) Note(err error, now time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !errors.Is(err, raft.ErrLeadershipTransferInProgress):
		g.since = time.Time{}
	case g.since.IsZero():
		g.since = now
	case now.Sub(g.since) > transferLimit:
		return fmt.Errorf("entries have been rejected for %v: %w", now.Sub(g.since), ErrStuckTransfer)
	}
	return nil
}
