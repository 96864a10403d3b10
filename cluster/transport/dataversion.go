package transport

import (
	"fmt"

	"github.com/throttledhq/throttled/topology"
)

// SetRecovery sets the recovery that this node belongs to: the identifier of the last "throttled recover" of
// its cluster. Streams to and from nodes of a different recovery are refused. Before the first call, the node
// accepts and opens Control streams regardless of the recovery of the peer. For streams of other purposes,
// the node is treated as a node of a cluster that was never recovered.
func (l *Link) SetRecovery(r topology.Recovery) { l.recovery.Store(&r) }

// SetCurrent sets the function that reports whether the data of a node is current. The argument boot is the
// boot number that the other node has sent. Its data is outdated if this node has a record of a higher boot
// number of the other node. If current is nil, which is the default, all data is current. A node with
// outdated data gets only Control streams, on which it can query the reason. The function must be safe for
// concurrent use.
func (l *Link) SetCurrent(current func(node string, boot uint64) bool) {
	if current == nil {
		l.current.Store(nil)
		return
	}
	l.current.Store(&current)
}

// dataVersion returns the recovery and the boot number that this node sends in a frame of a greeting. p is
// the purpose of the stream, and version is the version of the frame.
func (l *Link) dataVersion(p Purpose, version byte) dataVersion {
	s := dataVersion{boot: l.cfg.Boot, version: version}
	switch r := l.recovery.Load(); {
	case r != nil:
		s.recovery = *r
	case p == Control:
		s.recovery = unknownRecovery
	}
	return s
}

// allowsOldVersion reports whether streams are allowed with nodes of the previous version, which
// does not support recoveries.
func (l *Link) allowsOldVersion() bool { return l.dataVersion(Raft, version).recovery == "" }

// checkDataVersion returns the reason to refuse a stream with a peer, or nil.
func (l *Link) checkDataVersion(node string, p Purpose, theirs dataVersion) error {
	ours := l.dataVersion(p, version)
	switch {
	case theirs.version == oldVersion && ours.recovery != "" && ours.recovery != unknownRecovery:
		return fmt.Errorf("%w: node %s runs a version that does not support recoveries, and the cluster has recovery %s: upgrade the node", ErrVersion, node, ours.recovery)
	case p == Control && (ours.recovery == unknownRecovery || theirs.recovery == unknownRecovery):
		return nil
	case ours.recovery != theirs.recovery:
		return &RecoveryError{Node: node, Ours: ours.recovery, Theirs: theirs.recovery}
	case p != Control && !l.isCurrent(node, theirs.boot):
		return fmt.Errorf("%w: node %s, boot %d", ErrOutdated, node, theirs.boot)
	}
	return nil
}

func (l *Link) isCurrent(node string, boot uint64) bool {
	current := l.current.Load()
	return current == nil || boot == 0 || (*current)(node, boot)
}
