package raftlog

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

// InstallGuard finds out that a follower is sent the same snapshot again and again. That
// happens when the tail of its log is not the leader's: installing does not cut it off, and
// the leader takes what is left of it for a reason to install. The remedy is SetAside, and
// joining as a new node. The zero value is ready; its methods may be called from many
// goroutines at once.
type InstallGuard struct {
	mu       sync.Mutex
	installs []install
}

type install struct {
	index uint64
	at    time.Time
}

// Note notes that a snapshot that ends at index was installed. It wraps [ErrInstallLoop] at
// the third of the same index within 60 s.
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
		return fmt.Errorf("snapshot up to entry %d, %d times in %v: %w", index, same, installWindow, ErrInstallLoop)
	}
	return nil
}

// TransferGuard finds out that a leader goes on refusing entries because of a hand-over
// that was interrupted, which the library does not get out of by itself. The remedy is the
// end of the process. The zero value is ready; its methods may be called from many
// goroutines at once.
type TransferGuard struct {
	mu    sync.Mutex
	since time.Time // of the first refusal in a row; zero if there is none
}

// Note notes how adding an entry to the log went. It wraps [ErrStuckTransfer] when it has
// been refused because of a hand-over for more than 2 s, with nothing else between.
func (g *TransferGuard) Note(err error, now time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !errors.Is(err, raft.ErrLeadershipTransferInProgress):
		g.since = time.Time{}
	case g.since.IsZero():
		g.since = now
	case now.Sub(g.since) > transferLimit:
		return fmt.Errorf("entries have been refused for %v: %w", now.Sub(g.since), ErrStuckTransfer)
	}
	return nil
}
