package raftstore

import (
	"errors"

	"github.com/throttledhq/throttled/internal/fsutil"
)

// The errors of a [Store].
var (
	// ErrLocked is wrapped by Open, Inspect, Recover and SetAside when another process, or a Store in
	// this process, has locked the directory.
	ErrLocked = fsutil.ErrLocked
	// ErrPoisoned is wrapped, together with the first error of the Store, by the error of the call that
	// failed and of every later call. After an error, the content of the files is unknown and must not be
	// used. The process must exit.
	ErrPoisoned = errors.New("the log of this node is unusable after an error")
	// ErrStuck is wrapped when an operation of the store does not complete within its limit.
	ErrStuck = errors.New("the disk does not respond")
	// ErrDamaged is wrapped when a file is corrupt.
	ErrDamaged = errors.New("damaged")
	// ErrNoNode is wrapped by Inspect when the directory has no data of a node.
	ErrNoNode = errors.New("the directory has no data of a node: specify the data-dir of a node")
	// ErrGap is wrapped by Check when an entry after the newest valid snapshot is missing.
	ErrGap = errors.New("entries are missing from the log: remove the node from its cluster, and add a new node under another id")
	// ErrClosed is returned by the stores after Close.
	ErrClosed = errors.New("the log of this node is closed")
)

// The errors of Claim.
var (
	// ErrOtherCluster is wrapped when the directory belongs to a node of a different
	// cluster.
	ErrOtherCluster = errors.New("the directory belongs to another cluster: check data-dir and cluster-id")
	// ErrOtherNode is wrapped when the directory belongs to a different node of the
	// cluster.
	ErrOtherNode = errors.New("the directory belongs to another node: check data-dir and node-id")
	// ErrStale is wrapped when the cluster has rejected the directory as an old copy.
	ErrStale = errors.New("the data directory is an old copy, or another process has used it since: remove the node from the cluster, and add one under another id with an empty data directory")
)

// The errors of the guards.
var (
	// ErrInstallLoop is wrapped when a follower receives the same snapshot repeatedly.
	ErrInstallLoop = errors.New("the same snapshot is installed repeatedly")
	// ErrStuckTransfer is wrapped when a leadership transfer does not complete.
	ErrStuckTransfer = errors.New("a leadership transfer does not complete: restart the node")
)
