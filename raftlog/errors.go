package raftlog

import (
	"errors"

	"github.com/throttledhq/throttled/dirs"
)

// The errors of a [Store].
var (
	// ErrLocked is wrapped by Open, Inspect and Recover when another process, or another
	// Store in this one, has the directory.
	ErrLocked = dirs.ErrLocked
	// ErrPoisoned is wrapped, with the error that came first, by every call after it: what
	// the file holds is no longer known, and nothing may be built on it. The process has
	// to end.
	ErrPoisoned = errors.New("the log of this node cannot be relied on any more")
	// ErrStuck is wrapped when an operation of the store does not end.
	ErrStuck = errors.New("the disk does not answer")
	// ErrDamaged is wrapped when what is on the disk is not what was written.
	ErrDamaged = errors.New("damaged")
	// ErrGap is wrapped by Check when the log does not begin where the newest snapshot that
	// can be read ends.
	ErrGap = errors.New("entries are missing from the log: take the node out of its cluster, and let a new one join under another id")
	// ErrClosed is returned by the stores after Close.
	ErrClosed = errors.New("the log of this node is closed")
)

// The errors of Claim.
var (
	// ErrOtherCluster is wrapped when the directory belongs to a node of another cluster.
	ErrOtherCluster = errors.New("the directory belongs to another cluster")
	// ErrOtherNode is wrapped when the directory belongs to another node of the cluster.
	ErrOtherNode = errors.New("the directory belongs to another node")
	// ErrStale is wrapped when the cluster has turned the directory away as an old copy.
	ErrStale = errors.New("the data directory is an old copy, or another process has used it since: remove the node from the cluster, and add one under another id with an empty data directory")
)

// What the guards find.
var (
	// ErrInstallLoop is wrapped when a follower is sent the same snapshot again and again.
	ErrInstallLoop = errors.New("the same snapshot is installed again and again")
	// ErrStuckTransfer is wrapped when a hand-over of leadership does not end.
	ErrStuckTransfer = errors.New("a hand-over of leadership does not end")
)
